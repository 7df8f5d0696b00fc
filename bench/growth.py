"""How it grows: with clients, with rows, with worker processes, and with the way to its database.

`python -m bench growth` takes some minutes; BENCH_ROWS=100000 fills fewer rows for a quick look.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import asyncpg
import httpx

from bench import filling, flow, plot
from bench.database import Bench, database
from bench.delay import delayed
from bench.filling import ORGANIZATION
from bench.flow import Flow
from bench.measure import Figure, Shown, Table, median
from bench.plot import Axis, Points
from bench.server import Measured, serving, working
from safelight.http.paging import Cursors

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
ROWS = (1_000, 10_000, 100_000, 1_000_000)
WORKERS = (1, 2, 3, 4)
DELAYS = (0, 2, 10)
_SECRET = "a secret that is long enough for cursors"
_LIBRARY = f"/api/organizations/{ORGANIZATION}/uploads"
_FEED = f"/api/organizations/{ORGANIZATION}/activity"
_WARM = 40
_ASKED = 40  # times each question
_OTHERS = ("one by its name", "feed", "delete", "claim")


def run() -> list[Shown]:
    most = int(os.environ.get("BENCH_ROWS", str(ROWS[-1])))
    return [
        *clients(CLIENTS, 160),
        *rows([size for size in ROWS if size <= most]),
        *workers(WORKERS, 200),
        *delays(DELAYS, 240),
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


# Rows


def rows(sizes: list[int]) -> list[Shown]:
    found: dict[str, dict[int, float]] = {}
    filled = []
    with database() as bench:
        settings = {"SAFELIGHT_DATABASE_URL": bench.url, "SAFELIGHT_SECRET_KEY": _SECRET}
        with serving("--no-worker", files=bench.files, **settings) as server:
            already = 0
            for size in sizes:
                filled.append(asyncio.run(filling.fill(bench.url, already, size)))
                already = size
                for name, milliseconds in _ask_everything(server, bench, size).items():
                    found.setdefault(name, {})[size] = milliseconds
    lists = [name for name in found if name not in _OTHERS]
    return [
        _rows_table(found, sizes, filled),
        _rows_figure("rows", "How long a page of the library takes, by entries", found, lists),
        _rows_figure("others", "How long other things take, by entries", found, list(_OTHERS)),
    ]


def _ask_everything(server: Measured, bench: Bench, size: int) -> dict[str, float]:
    """Milliseconds, the middle of many."""
    deep, word = size // 2, f"{size // 3:08}"
    with server.client() as client:
        asked: dict[str, dict[str, str | int]] = {
            "first page": {},
            "deep page": {"cursor": _cursor(deep)},
            "status=done": {"status": "done"},
            "status=failed": {"status": "failed"},
            "label=": {"label": "label17"},
            "q=, every 10th entry": {"q": "tenth"},
            "q=, every 100th": {"q": "hundredth"},
            "q=, one entry": {"q": word},
        }
        found = {
            name: _middle(lambda _, query=query: _get(client, _LIBRARY, query))  # type: ignore[misc]
            for name, query in asked.items()
        }
        found["one by its name"] = _middle(lambda n: _find(client, size - 100 - n))
        after = {"after": size, "limit": 50}
        found["feed"] = _middle(lambda _: _get(client, _FEED, after))
        found["delete"] = _middle(lambda n: _delete(client, size - n))
    found["claim"] = asyncio.run(_claims(bench.url))
    return found


def _middle(ask: Callable[[int], None]) -> float:
    for number in range(5):
        ask(number)
    took = []
    for number in range(5, 5 + _ASKED):
        began = time.perf_counter()
        ask(number)
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


def _get(client: httpx.Client, path: str, query: "dict[str, str | int] | dict[str, int]") -> None:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["items"], query


def _find(client: httpx.Client, number: int) -> None:
    answer = client.get(f"{_LIBRARY}/photo-{number:08}.jpg")
    assert answer.status_code == 200, answer.text


def _delete(client: httpx.Client, number: int) -> None:
    answer = client.delete(f"{_LIBRARY}/photo-{number:08}.jpg")
    assert answer.status_code == 202, answer.text


def _cursor(number: int) -> str:
    """As the server signs them; walking there page by page would take thousands of requests."""
    key = [filling.BEGAN + number * 1000, f"photo-{number:08}.jpg"]
    return Cursors(_SECRET).make(f"uploads:{ORGANIZATION}:None:None:None", key)


async def _claims(url: str) -> float:
    """Of four jobs among as many as there are entries; each is given back."""
    connection = await asyncpg.connect(url)
    took = []
    try:
        for _ in range(5 + _ASKED):
            transaction = connection.transaction()
            await transaction.start()
            began = time.perf_counter()
            await connection.fetch(
                "SELECT * FROM job_take($1, $2, $3, $4, $5, $6)",
                [filling.KIND], [4], [""], "", "bench", timedelta(seconds=30),
            )  # fmt: skip
            took.append((time.perf_counter() - began) * 1000)
            await transaction.rollback()
    finally:
        await connection.close()
    return median(took[5:])


def _rows_table(found: dict[str, dict[int, float]], sizes: list[int], filled: list[float]) -> Table:
    base, last = (10_000 if 10_000 in sizes else sizes[0]), sizes[-1]
    table = Table(
        "Growth: rows, one organization (p50 in ms)",
        "asked", *(f"{size:,}" for size in sizes), f"{last:,} ÷ {base:,}", "budget", "verdict",
        says="Through the API, 50 entries a page; a claim is asked of PostgreSQL, among as many "
        "waiting jobs. Filled in " + ", ".join(f"{each:.0f} s" for each in filled) + ".",
    )  # fmt: skip
    for name, values in found.items():
        ratio = values[last] / values[base]
        met = "met" if ratio <= 1.5 else "**missed**"
        table.add(name, *(f"{values[size]:.1f}" for size in sizes), f"{ratio:.2f}", "≤ 1.5", met)
    return table


def _rows_figure(
    file: str, title: str, found: dict[str, dict[int, float]], names: list[str]
) -> Figure:
    lines: dict[str, Points] = {name: list(found[name].items()) for name in names}
    sizes = tuple(map(float, found[names[0]]))
    across = Axis("entries in the library", log=True, at=sizes)
    return _figure(file, title, across, Axis("milliseconds, p50", log=True), lines)


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
    programs = {"the whole pipeline": "safelight", "without the model": "bench.instant"}
    found: dict[str, dict[int, Flow]] = {name: {} for name in programs}
    for each in milliseconds:
        for name, program in programs.items():
            with _behind(each, program) as server:
                flow.run(server, _WARM)
                found[name][each] = flow.run(server, count)
    table = Table(
        "Growth: milliseconds added to every round trip to the database, one organization",
        "added", *(f"{name}, images/s" for name in programs), "÷ without", "budget", "verdict",
        says="Through a wire of the bench's own, also where nothing is added. 16 clients; the "
        "ratio is the whole pipeline's.",
    )  # fmt: skip
    whole = found["the whole pipeline"]
    for each in milliseconds:
        ratio = whole[each].per_second / whole[0].per_second
        met = ("≥ 0.8", "met" if ratio >= 0.8 else "**missed**") if each == 10 else ("", "")
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
