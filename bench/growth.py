"""How it grows: with clients, with rows, with worker processes, and with the way to its database.

`python -m bench growth` takes some minutes; BENCH_ROWS=100000 fills fewer rows for a quick look.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench import flow, plot, rows, similar
from bench.database import database
from bench.delay import delayed
from bench.flow import Flow
from bench.measure import Figure, Shown, Table, verdict
from bench.plot import Axis, Points
from bench.server import Measured, serving, working

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
ROWS = (1_000, 10_000, 100_000, 1_000_000)
WORKERS = (1, 2, 3, 4)
DELAYS = (0, 2, 10)
_WARM = 40


def run() -> list[Shown]:
    most = int(os.environ.get("BENCH_ROWS", str(ROWS[-1])))
    return [
        *clients(CLIENTS, 160),
        *rows.run([size for size in ROWS if size <= most]),
        *similar.run(min(similar.ENTRIES, most)),
        *workers(WORKERS, 200),
        *delays(DELAYS, 160),
    ]


def clients(numbers: tuple[int, ...], count: int) -> list[Shown]:
    """Enough images for the many: each client sends some."""
    with serving(SAFELIGHT_THUMBNAILS="off") as server:
        flow.run(server, _WARM)
        found = {}
        for number in numbers:
            images = max(count, 4 * number) if number > 1 else count // 2
            found[number] = flow.run(server, images, clients=number)
    table = Table(
        "Growth: clients", "clients", "images/s", "CPU ms per image", "an upload's p50", "p99"
    )
    for number, each in found.items():
        cells = (f"{each.latency(0.5):.0f} ms", f"{each.latency(0.99):.0f} ms")
        table.add(number, f"{each.per_second:.1f}", f"{each.cpu:.1f}", *cells)
    across = Axis("clients at once", log=True, at=tuple(map(float, numbers)))
    return [
        table,
        _figure(
            "clients", "Images from upload to label, by clients", across, Axis("images per second"),
            {"Safelight": [(n, each.per_second) for n, each in found.items()]},
        ),
        _figure(
            "latency", "How long an upload waits for its answer", across,
            Axis("milliseconds", log=True),
            {
                "p50": [(n, each.latency(0.5)) for n, each in found.items()],
                "p99": [(n, each.latency(0.99)) for n, each in found.items()],
            },
        ),
    ]  # fmt: skip


# Workers


def workers(numbers: tuple[int, ...], count: int) -> list[Shown]:
    """Each with one child, so that more of them is more at once."""
    found: dict[int, Flow] = {}
    one = {"SAFELIGHT_CLASSIFIER_THREADS": "1", "SAFELIGHT_THUMBNAILS": "off"}
    with database() as bench:
        settings = {"SAFELIGHT_DATABASE_URL": bench.url, **one}
        with (
            serving("--no-worker", files=bench.files, **settings) as server,
            ExitStack() as stack,
        ):
            server.beside[bench.pid] = ""
            for number in numbers:
                server.beside[stack.enter_context(working(bench.files, **settings))] = ""
                flow.run(server, _WARM)
                found[number] = flow.run(server, count)
    table = Table(
        "Growth: worker processes (`serve --no-worker`, N × `worker`, one child each)",
        "workers", "images/s", "CPU ms per image",
    )  # fmt: skip
    for number, each in found.items():
        table.add(number, f"{each.per_second:.1f}", f"{each.cpu:.1f}")
    cores = os.cpu_count() or 1
    return [
        table,
        _figure(
            "workers", f"Images from upload to label, by worker processes ({cores} cores)",
            Axis("worker processes", at=tuple(map(float, numbers)), floor=1),
            Axis("images per second"),
            {"Safelight": [(n, each.per_second) for n, each in found.items()]},
        ),
    ]  # fmt: skip


# The way to the database


def delays(milliseconds: tuple[int, ...], count: int) -> list[Shown]:
    """There and back again, so that what else the machine does falls on all alike."""
    programs = {"the whole pipeline": "safelight", "without the model": "bench.instant"}
    rounds: dict[str, dict[int, list[Flow]]] = {
        name: {each: [] for each in milliseconds} for name in programs
    }
    for each in (*milliseconds, *reversed(milliseconds)):
        for name, program in programs.items():
            with _behind(each, program) as server:
                flow.run(server, _WARM)
                rounds[name][each].append(flow.run(server, count))
    found = {
        name: {each: flow.together(flows) for each, flows in by_delay.items()}
        for name, by_delay in rounds.items()
    }
    table = Table(
        "Growth: milliseconds added to every round trip to the database, one organization",
        "added", *(f"{name}, images/s" for name in programs), "÷ without", "budget", "verdict",
        says="Through a wire of the bench's own, also where nothing is added. 16 clients; the "
        "ratio is the whole pipeline's.",
    )  # fmt: skip
    whole = found["the whole pipeline"]
    for each in milliseconds:
        ratio = whole[each].per_second / whole[0].per_second
        met = ("≥ 0.8", verdict(ratio, ("≥", 0.8))) if each == 10 else ("", "")
        rates = (f"{found[name][each].per_second:.1f}" for name in programs)
        table.add(f"{each} ms", *rates, f"{ratio:.2f}", *met)
    lines: dict[str, Points] = {
        name: [(each, flows[each].per_second) for each in milliseconds]
        for name, flows in found.items()
    }
    return [
        table,
        _figure(
            "delay", "Images from upload to label, by the way to the database",
            Axis("milliseconds added to each round trip", at=tuple(map(float, milliseconds))),
            Axis("images per second"), lines,
        ),
    ]  # fmt: skip


@contextmanager
def _behind(milliseconds: int, program: str) -> Iterator[Measured]:
    """A server and its own database, with a wire between them."""
    with (
        database() as bench,
        delayed(bench.url, bench.socket, milliseconds) as url,
        serving(
            program=program, files=bench.files,
            SAFELIGHT_DATABASE_URL=url, SAFELIGHT_THUMBNAILS="off",
        ) as server,
    ):  # fmt: skip
        server.beside[bench.pid] = ""
        yield server


def _figure(name: str, title: str, x: Axis, y: Axis, lines: dict[str, Points]) -> Figure:
    file = plot.save(f"performance-{name}.svg", plot.curves(title, x, y, lines))
    return Figure(file, f"{title}: {y.says}")


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
