"""Upload → classified, all of it: CPU per image of every process, against the bare model, and
against the same flow in the common way.

The bare loop is the same decode and inference and nothing else, measured alone between the rounds
of the others, in the same run.
"""

import json
import time
from contextlib import closing
from dataclasses import dataclass, field

import httpx
from websockets.sync.client import connect

from bench import flow, plot, uploads
from bench.classify import Bare
from bench.common_way import running as common_way
from bench.database import Statement, by_text, commits, database
from bench.flow import CLIENTS, Flow
from bench.measure import Figure, Shown, Table, Words, median, percentile
from bench.pictures import two_megapixels
from bench.processes import Usage
from bench.server import TOKEN, Measured, serving

UPDATED = "classification_updated"
_WARM = 160  # loads the model, fills the pools, and lets each connection make its plans
_LEAST_SHOWN = 0.02  # statements per image


@dataclass
class Counted:
    """Per image, as PostgreSQL's log has it."""

    images: int
    statements: list[Statement]
    writers: int

    @property
    def per_image(self) -> float:
        return len(self.statements) / self.images

    @property
    def commits(self) -> float:
        """The larger of the two ways to count: the log misses some, never the other way round."""
        return max(commits(self.statements), self.writers) / self.images


@dataclass
class Found:
    bare: Bare = field(default_factory=Bare)
    off: list[Flow] = field(default_factory=list)
    on: list[Flow] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    paced: Flow | None = None


def run(*, count: int = 400, rounds: int = 2, paced: int = 240) -> list[Shown]:
    found = Found()
    for number in range(rounds):
        found.bare.measure(9)
        with serving(SAFELIGHT_THUMBNAILS="off") as server:
            found.starts.append(server.seconds_to_start)
            flow.run(server, _WARM)
            found.off.append(flow.run(server, count))
            if number == rounds - 1:
                found.idle = idle_latency(server, 30)
                found.paced = flow.run(server, paced, rate=30.0)
        found.bare.measure(9)
        with serving(SAFELIGHT_THUMBNAILS="on") as server:
            flow.run(server, _WARM)
            found.on.append(flow.run(server, count))
    found.bare.measure(9)
    with serving(program="bench.instant", SAFELIGHT_THUMBNAILS="off") as server:
        flow.run(server, _WARM)
        instant = flow.run(server, count)
    counted = _statements(count // 2)
    off, on = flow.together(found.off), flow.together(found.on)
    return [
        _whole(found, off, on, counted),
        _by_process(off),
        _by_part(off, instant, found.bare.cpu()),
        _told(counted),
        *_beside_the_common_way(found, off, on, counted, count),
    ]


def _whole(found: Found, off: Flow, on: Flow, counted: Counted) -> Table:
    table = Table("Upload → classified, 2 MP JPEGs", "what", "value", "budget", "verdict")
    bare = found.bare
    table.add("`safelight serve` on an empty directory → answering", _seconds(found.starts), "", "")
    told = f"{bare.cpu():.1f} ms ({bare.threads} of threads {bare.told()})"
    table.add(
        "bare decode + infer loop alone, CPU per image, with the threads that do most", told, "", ""
    )
    table.add("whole pipeline, thumbnails off, CPU per image", f"{off.cpu:.1f} ms", "", "")
    table.add("… Safelight's own processes", f"{off.ours:.1f} ms", "", "")
    table.add("… PostgreSQL", f"{off.postgres:.1f} ms", "", "")
    table.add("whole pipeline, thumbnails on, CPU per image", f"{on.cpu:.1f} ms", "", "")
    beyond = "CPU per image beyond the bare loop, thumbnails off"
    table.judge(beyond, off.cpu - bare.cpu(), ("≤", 5), "{:.1f} ms")
    table.judge("bare ÷ whole, thumbnails off", bare.cpu() / off.cpu, ("≥", 0.80))
    table.judge("bare ÷ whole, thumbnails on", bare.cpu() / on.cpu, ("≥", 0.70))
    table.judge("statements per image", counted.per_image, ("≤", 3.2))
    table.judge("commits per image", counted.commits, ("≤", 3.1))
    idle = [value * 1000 for value in found.idle]
    said = f"idle: 201 → `{UPDATED}` on a socket, p50 (p95: {percentile(idle, 0.95):.0f} ms)"
    table.judge(said, median(idle), ("≤", 45), "{:.0f} ms")
    p50, p99 = off.latency(0.5), off.latency(0.99)
    said = f"{CLIENTS} clients: an upload's p99 ({p99:.0f} ms) ÷ p50 ({p50:.0f} ms)"
    table.judge(said, p99 / p50, ("≤", 3))
    rates = f"{off.per_second:.0f}, with thumbnails {on.per_second:.0f} images/s"
    table.add(f"throughput, {CLIENTS} clients", rates, "", "")
    if found.paced:
        told = f"{found.paced.cpu:.1f} ms, PostgreSQL {found.paced.postgres:.1f}"
        table.add("paced at 30/s: whole pipeline, CPU per image", told, "", "")
    return table


def _by_process(off: Flow) -> Table:
    table = Table(
        "Where each millisecond goes, by process (per image, thumbnails off)",
        "process", "user ms", "system ms", "minor page faults", "waits", "taken off the processor",
    )  # fmt: skip
    quiet = Usage()
    for role, usage in sorted(off.usages.items(), key=lambda each: -each[1].cpu):
        if off.ms(usage) < 0.05:
            quiet += usage
        else:
            _process_row(table, role, usage, off.count)
    _process_row(table, "all others (walwriter, checkpointer, …)", quiet, off.count)
    return table


def _process_row(table: Table, role: str, usage: Usage, count: int) -> None:
    table.add(
        role,
        f"{usage.user / count * 1000:.2f}",
        f"{usage.system / count * 1000:.2f}",
        f"{usage.faults / count:.1f}",
        f"{usage.waits / count:.1f}",
        f"{usage.pushed / count:.1f}",
    )


def _by_part(off: Flow, instant: Flow, bare: float) -> Table:
    """Each line is a difference of two measurements, so that they add up to the whole."""
    table = Table(
        "Where each millisecond goes, by part (CPU ms per image, thumbnails off)",
        "part", "ours", "PostgreSQL",
        says="Each line is what a server costs more that does this too: the first six as servers "
        "that stop after that step, then the whole one with a classifier that answers at once, "
        "then the real one. Differences of a few tenths are noise.",
    )  # fmt: skip
    names = (
        "reading the body off the socket", "frame", "multipart", "hash and write",
        "fsync and rename", "token, record and answer",
    )  # fmt: skip
    before, database = 0.0, 0.0
    for name, step in zip(names, uploads.steps(), strict=True):
        last = step.name == uploads.STEPS[-1]
        database = step.database if last else 0.0
        table.add(name, f"{step.server - before:.2f}", f"{database:.2f}" if last else "")
        before = step.server
    stored = (f"{instant.ours - before:.2f}", f"{instant.postgres - database:.2f}")
    table.add("claim, store, project, apply, live feed", *stored)
    children = off.of("children")
    table.add("decode and infer, as in the bare loop", f"{bare:.2f}", "")
    slower = "… more than that in the children (locked up, and beside everything else)"
    table.add(slower, f"{children - bare:.2f}", "")
    asking = off.ours - children - instant.ours
    more = f"{off.postgres - instant.postgres:.2f}"
    table.add("asking the children; everything slower beside them", f"{asking:.2f}", more)
    table.add("**whole**", f"**{off.ours:.2f}**", f"**{off.postgres:.2f}**")
    return table


def _statements(count: int) -> Counted:
    """With nobody watching: what a socket or a poller asks for is not the image's. Whether all is
    done is asked on a connection of ours, which the log tells apart."""
    settings = {"SAFELIGHT_THUMBNAILS": "off"}
    with (
        database() as bench,
        serving(files=bench.files, SAFELIGHT_DATABASE_URL=bench.url, **settings) as server,
    ):
        flow.run(server, _WARM)

        class Silent:
            port, roots = server.port, server.roots

            @staticmethod
            def position() -> int:
                return int(bench.ask("SELECT count(*) FROM uploads WHERE classified_at > 0"))

            @staticmethod
            def done_since(position: int) -> tuple[int, int]:
                now = Silent.position()
                return now - position, now

        with bench.logging() as statements:
            before = bench.writers()
            flow.run(Silent(), count)
            writers = bench.writers() - before
    return Counted(count, statements, writers)


def _told(counted: Counted) -> Table:
    table = Table(
        "Statements per image, from PostgreSQL's log",
        "per image", "mean ms, waits included", "statement",
        says=f"{counted.images} images from {CLIENTS} clients. Commits are transactions that "
        f"wrote: {commits(counted.statements) / counted.images:.2f} by the log, "
        f"{counted.writers / counted.images:.2f} by the transaction counter.",
    )  # fmt: skip
    rare = 0
    for text, often, milliseconds in by_text(counted.statements):
        if often / counted.images < _LEAST_SHOWN:
            rare += often
            continue
        short = text if len(text) <= 90 else f"{text[:89]}…"
        table.add(f"{often / counted.images:.2f}", f"{milliseconds / often:.2f}", f"`{short}`")
    table.add(f"{rare / counted.images:.2f}", "", "all others")
    table.add(f"**{counted.per_image:.2f}**", "", "**together**")
    return table


def _beside_the_common_way(
    found: Found, off: Flow, on: Flow, counted: Counted, count: int
) -> list[Shown]:
    bars: dict[str, dict[str, float]] = {
        "bare loop": {"decode and infer": found.bare.cpu()},
        "Safelight": _bar(off),
        "… with thumbnails": _bar(on),
    }
    reason = common_way.missing()
    if reason:
        return [Words(reason), _bars(bars)]
    with database() as bench, common_way.running(bench) as other:
        flow.run(other, _WARM)
        theirs = flow.run(other, count)
        url = other.url.replace("http", "ws", 1) + "/live"
        waits = _waits(url, f"{other.url}/api/upload", 20)
        with bench.logging() as statements:
            before = bench.writers()
            flow.run(other, count // 4)
            told = Counted(count // 4, statements, bench.writers() - before)
    table = Table(
        "Beside the same flow in the common way",
        "what", "bare loop", "Safelight", "FastAPI + Celery + Redis",
        says="Thumbnails off, the same pictures and model, equal durability: the upload is synced, "
        "the row committed and the task on disk (`appendfsync always`) before the answer. It has "
        "one organization's token and one table. It keeps no order among uploads of one name, "
        "no history and no feed to resume, writes a label twice after a redelivery and loses "
        "a task between commit and enqueue, decodes in the process that holds its secrets, and "
        "has no quotas, no deletes and no search.",
    )  # fmt: skip
    bare = found.bare
    table.add("CPU ms per image", f"{bare.cpu():.1f}", f"{off.cpu:.1f}", f"{theirs.cpu:.1f}")
    ratios = (f"{bare.cpu() / each.cpu:.2f}" for each in (off, theirs))
    table.add("bare ÷ whole", "1", *ratios)
    rates = (f"{each.per_second:.0f}" for each in (off, theirs))
    table.add(f"images/s, {CLIENTS} clients", f"{bare.rate:.0f}", *rates)
    idle = (f"{median(each) * 1000:.0f} ms" for each in (found.idle, waits))
    table.add("idle: 201 → label on a socket, p50", "", *idle)
    p99s = (f"{each.latency(0.5):.0f} / {each.latency(0.99):.0f} ms" for each in (off, theirs))
    table.add(f"an upload's p50 / p99, {CLIENTS} clients", "", *p99s)
    table.add("statements per image", "", f"{counted.per_image:.1f}", f"{told.per_image:.1f}")
    table.add("commits per image", "", f"{counted.commits:.1f}", f"{told.commits:.1f}")
    bars["common way"] = _bar(theirs)
    return [table, _bars(bars)]


def _bar(whole: Flow) -> dict[str, float]:
    """Celery's processes do the model's work and the queue's alike."""
    parts = {
        "decode and infer": whole.of("children"),
        "Celery, decode and infer included": whole.of("Celery"),
        "web server, its jobs included": whole.of("server", "web"),
        "PostgreSQL": whole.postgres,
        "Redis": whole.of("Redis"),
    }
    return {name: value for name, value in parts.items() if value}


def _bars(bars: dict[str, dict[str, float]]) -> Figure:
    says = "CPU milliseconds per image, 2 MP JPEGs, by process"
    return Figure(plot.save("performance-cpu.svg", plot.bars(says, "ms", bars)), says)


def idle_latency(server: Measured, count: int) -> list[float]:
    live = server.url.replace("http", "ws", 1) + "/api/organizations/default/live"
    return _waits(live, f"{server.url}/api/upload", count)


def _waits(live: str, upload: str, count: int) -> list[float]:
    """Seconds from the answer to the label on a socket, one image at a time."""
    waits, content = [], two_megapixels()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with (
        closing(connect(live, additional_headers=headers)) as socket,
        httpx.Client(headers=headers, timeout=60) as client,
    ):
        for number in range(count):
            client.post(upload, files={"file": (f"idle-{number}.jpg", content)}).raise_for_status()
            answered = time.monotonic()
            while json.loads(socket.recv(timeout=30))["type"] != UPDATED:
                pass
            waits.append(time.monotonic() - answered)
            time.sleep(0.1)
    return waits


def _seconds(values: list[float]) -> str:
    return f"{median(values):.1f} s"


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
