"""What the queue costs, beside a bare SKIP LOCKED loop in the same run: `python -m bench.queue`.

Both do the same job: one statement inserts a row and its job, a worker claims it, and the handler's
one statement writes the row and ends the job, fenced. The bare loop has nothing else: no renewal,
retry, takeover, fairness or schedule. Figures are CPU milliseconds per job, enqueuer included.
"""

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import psutil
import uvloop

from bench.measure import Table, cpu_seconds, median, percentile, tree
from safelight.infra import logs
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock
from safelight.infra.migrate import migrate
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Job, JobKind, Verdict
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker

SLOTS = 32
SECONDS = 3.0
BACKLOG = 4000
ALARMS = 10_000
LEASE = timedelta(seconds=10)

ENQUEUE = """
    WITH row AS (INSERT INTO bench (state) VALUES ('new') RETURNING id)
    SELECT id, job_enqueue('bench.work', 'acme', jsonb_build_object('row', id)) FROM row
"""
ENQUEUE_MANY = """
    WITH rows AS (INSERT INTO bench (state)
                  SELECT 'new' FROM generate_series(1, $1::integer) RETURNING id)
    SELECT count(job_enqueue('bench.work', 'acme', jsonb_build_object('row', id))) FROM rows
"""
SET_ALARMS = """
    SELECT job_enqueue('bench.work', 'acme', '{"row": 0}', NULL, NULL, 0, now() + interval '1 day')
    FROM generate_series(1, $1::integer)
"""
END = """
    WITH mine AS MATERIALIZED (SELECT job_finish($1, $2) AS mine)
    UPDATE bench SET state = 'done' FROM mine WHERE id = $3 AND state = 'new' AND mine
    RETURNING true
"""
BARE_CLAIM = """
    UPDATE jobs SET status = 'running', claim = claim + 1, attempts = attempts + 1,
                    owner = 'bare', lease_until = now() + $2
    WHERE id IN (SELECT id FROM jobs
                 WHERE status = 'queued' AND kind = 'bench.work' AND node = '' AND priority = 0
                   AND organization = 'acme'
                 ORDER BY run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING id, claim, payload
"""


@dataclass(frozen=True, slots=True)
class Row:
    row: int


WORK = JobKind("bench.work", payload=Row, limit=SLOTS)


class System(Protocol):
    name: str
    started: dict[int, float]

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def wake(self) -> None: ...


class Bare:
    """The least that claims safely."""

    name = "bare loop"

    def __init__(self, db: Database) -> None:
        self._db = db
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.started: dict[int, float] = {}

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._work())

    async def stop(self) -> None:
        self._loop.cancel()
        await asyncio.wait([self._loop])

    def wake(self) -> None:
        self._news.set()

    async def _work(self) -> None:
        while True:
            free = SLOTS - len(self._tasks)
            rows = await self._db.fetch(BARE_CLAIM, free, LEASE) if free else []
            for row in rows:
                task = asyncio.create_task(self._run(row))
                self._tasks.add(task)
                task.add_done_callback(self._ran)
            if len(rows) < max(free, 1):
                await self._news.wait()
                self._news.clear()

    def _ran(self, task: "asyncio.Task[None]") -> None:
        full = len(self._tasks) == SLOTS
        self._tasks.discard(task)
        if full:
            self._news.set()

    async def _run(self, job: Any) -> None:
        row = job["payload"]["row"]
        self.started[row] = time.perf_counter()
        await self._db.fetchval(END, job["id"], job["claim"], row)


class Ours:
    name = "queue"

    def __init__(self, db: Database) -> None:
        self._db = db
        self._bus = Bus(db, "bench")
        self._queue = Queue(db, self._bus, SystemClock(), owner="bench", node="here", kinds=[WORK])
        self._worker = Worker(self._queue, [Handler(WORK, self._handle)])
        self.started: dict[int, float] = {}

    async def start(self) -> None:
        await self._bus.start()
        self._bus._company_until = 0  # noqa: SLF001 - as after its first seconds alone
        await self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()
        await self._bus.stop()

    def wake(self) -> None:
        self._queue.wake(WORK)

    async def _handle(self, job: Job[Row]) -> Verdict:
        row = job.payload.row
        self.started[row] = time.perf_counter()
        return job.ended(await self._db.fetchval(END, job.id, job.claim, row))


@dataclass
class Figures:
    """What one measurement gave, over all rounds."""

    python: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    extra: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def total(self) -> float:
        return median(self.python) + median(self.server)

    def cells(self, unit: Callable[[float], str]) -> tuple[str, str, str]:
        return unit(median(self.python)), unit(median(self.server)), unit(self.total)


class Bench:
    def __init__(self, db: Database, postmaster: int) -> None:
        self._db = db
        self._postmaster = postmaster
        self.figures: dict[tuple[str, str], Figures] = defaultdict(Figures)

    @asynccontextmanager
    async def measuring(self, what: str, who: str, per: float) -> AsyncIterator[Figures]:
        figures = self.figures[what, who]
        python, server = time.process_time(), server_seconds(self._postmaster)
        yield figures
        figures.python.append((time.process_time() - python) / per)
        figures.server.append((server_seconds(self._postmaster) - server) / per)

    async def at_rate(self, system: System, rate: int, what: str) -> None:
        """Enqueues evenly; the wait until the start counts from the answer to the insert."""
        enqueued: dict[int, float] = {}
        jobs = int(rate * SECONDS)
        async with self.measuring(what, system.name, jobs / 1000) as figures:
            begin = time.perf_counter()
            for number in range(jobs):
                await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
                row = await self._db.fetchval(ENQUEUE)
                enqueued[row] = time.perf_counter()
                system.wake()
            await self._until_done()
        waits = [1000 * (system.started[row] - moment) for row, moment in enqueued.items()]
        figures.extra.append((percentile(waits, 0.5), percentile(waits, 0.99)))

    async def saturated(self, system: System) -> None:
        await self._db.execute(ENQUEUE_MANY, BACKLOG)
        begin = time.perf_counter()
        async with self.measuring("saturated", system.name, BACKLOG / 1000) as figures:
            system.wake()
            await self._until_done()
        figures.extra.append((BACKLOG / (time.perf_counter() - begin),))

    async def idle(self, system: System, what: str) -> None:
        async with self.measuring(what, system.name, SECONDS / 100):
            await asyncio.sleep(SECONDS)

    async def with_alarms(self, system: System) -> None:
        await self._db.execute(SET_ALARMS, ALARMS)
        await self.at_rate(system, 90, f"90/s beside {ALARMS} alarms")
        await self.idle(system, f"idle beside {ALARMS} alarms")
        await self._db.execute("DELETE FROM jobs")

    async def _until_done(self) -> None:
        unfinished = "SELECT EXISTS (SELECT FROM jobs WHERE status <> 'delayed')"
        while await self._db.fetchval(unfinished):  # noqa: ASYNC110 - it ends in the database
            await asyncio.sleep(0.02)


def server_seconds(postmaster: int) -> float:
    """The postmaster, its living children, and those it has already buried."""
    times = psutil.Process(postmaster).cpu_times()
    return cpu_seconds(tree(postmaster)) + times.children_user + times.children_system


async def measure(url: str, postmaster: int, rounds: int) -> Table:
    await migrate(url)
    db = await Database.open(url, pool_size=10)
    await db.execute("CREATE TABLE bench (id bigserial PRIMARY KEY, state text NOT NULL)")
    bench = Bench(db, postmaster)
    for _ in range(rounds):
        for make in (Bare, Ours):
            await with_system(make(db), lambda system: one_round(bench, system))
    await with_system(Ours(db), lambda system: standing_still(bench, system))
    await db.close()
    return as_table(bench)


async def with_system(system: System, work: Callable[[System], Awaitable[None]]) -> None:
    await system.start()
    await asyncio.sleep(0.3)
    await work(system)
    await system.stop()


async def one_round(bench: Bench, system: System) -> None:
    for rate in (30, 90):
        await bench.at_rate(system, rate, f"{rate}/s")
    await bench.saturated(system)


async def standing_still(bench: Bench, system: System) -> None:
    await bench.idle(system, "idle")
    await bench.with_alarms(system)


def as_table(bench: Bench) -> Table:
    table = Table(
        "The queue: CPU per job (ms), and in % of a core when idle",
        "load", "who", "python", "PostgreSQL", "together", "beside the bare loop", "latency, rate",
    )  # fmt: skip
    for (what, who), figures in bench.figures.items():
        bare = bench.figures.get((what, Bare.name))
        unit = "{:.2f} %".format if what.startswith("idle") else "{:.2f}".format
        ratio = f"× {figures.total / bare.total:.2f}" if bare and who != Bare.name else ""
        table.add(what, who, *figures.cells(unit), ratio, _extra(figures))
    return table


def _extra(figures: Figures) -> str:
    if not figures.extra:
        return ""
    middle = [median(list(column)) for column in zip(*figures.extra, strict=True)]
    if len(middle) == 1:
        return f"{middle[0]:.0f} jobs/s"
    return f"starts after p50 {middle[0]:.1f} ms, p99 {middle[1]:.1f} ms"


def run(*, rounds: int = 2) -> Table:
    logs.configure("console", "warning")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        Path(directory).chmod(0o711)
        postgres = EmbeddedPostgres(Path(directory) / "data")
        url = postgres.start()
        try:
            return uvloop.run(measure(url, postgres.pid or 0, rounds))
        finally:
            postgres.stop()


if __name__ == "__main__":
    print(run().markdown())
