"""What the queue costs, beside a bare SKIP LOCKED loop in the same run: `python -m bench.queue`.

Both do the same job: one statement inserts a row and its job, a worker claims it, and the handler's
one statement writes the row and ends the job, fenced. The bare loop has nothing else: no lease
renewal, retry, fairness, takeover or schedule. Figures are CPU milliseconds per job, python (enqueuer
and worker) plus server.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import structlog
import uvloop

from safelight.infra.bus import Bus
from safelight.infra.clock import SystemClock
from safelight.infra.db import Connection, Database
from safelight.infra.jobs import Backoff, Handler, Job, JobKind, Verdict
from safelight.infra.migrate import migrate
from safelight.infra.postgres import EmbeddedPostgres
from safelight.infra.queue import Queue
from safelight.infra.queue_worker import Worker

SLOTS = 32
SECONDS = 5.0
BACKLOG = 6000
ALARMS = 10_000
LEASE = timedelta(seconds=10)

ENQUEUE = """
    WITH row AS (INSERT INTO bench (state) VALUES ('new') RETURNING id)
    SELECT id, job_enqueue('bench.work', $1, jsonb_build_object('row', id)) FROM row
"""
END = """
    WITH mine AS MATERIALIZED (SELECT job_finish($1, $2) AS mine)
    UPDATE bench SET state = 'done' FROM mine WHERE id = $3 AND state = 'new' AND mine
    RETURNING true
"""


@dataclass(frozen=True, slots=True)
class Row:
    row: int


WORK = JobKind("bench.work", payload=Row, limit=SLOTS, retry=Backoff(attempts=5))


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
        self._running = 0
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
            free = SLOTS - self._running
            rows = await self._claim(free) if free else []
            for row in rows:
                self._running += 1
                asyncio.create_task(self._run(row["id"], row["claim"], row["payload"]["row"]))  # noqa: RUF006 - counted
            if not rows or len(rows) < free:
                await self._news.wait()
                self._news.clear()
            else:
                await asyncio.sleep(0)

    async def _claim(self, free: int) -> list[dict[str, object]]:
        return await self._db.fetch(  # type: ignore[return-value]  # records read like dicts
            """
            UPDATE jobs SET status = 'running', claim = claim + 1, attempts = attempts + 1,
                            owner = 'bare', lease_until = now() + $2
            WHERE id IN (SELECT id FROM jobs WHERE status = 'queued' AND kind = 'bench.work'
                         AND node = '' AND priority = 0 AND organization = 'acme'
                         ORDER BY run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
            RETURNING id, claim, payload
            """,
            free,
            LEASE,
        )

    async def _run(self, job: int, claim: int, row: int) -> None:
        self.started[row] = time.perf_counter()
        await self._db.fetchval(END, job, claim, row)
        self._running -= 1
        self._news.set()


class Ours:
    name = "queue"

    def __init__(self, db: Database) -> None:
        self._db = db
        self.bus = Bus(db, "bench")
        self.queue = Queue(db, self.bus, SystemClock(), owner="bench", node="here", kinds=[WORK])
        self.worker = Worker(self.queue, [Handler(WORK, self._handle)])
        self.started: dict[int, float] = {}

    async def start(self) -> None:
        await self.bus.start()
        self.bus._company_until = 0  # noqa: SLF001 - as after its first seconds alone
        await self.worker.start()

    async def stop(self) -> None:
        await self.worker.stop()
        await self.bus.stop()

    def wake(self) -> None:
        self.queue.wake(WORK)

    async def _handle(self, job: Job[Row]) -> Verdict:
        row = job.payload.row
        self.started[row] = time.perf_counter()
        return job.ended(await self._db.fetchval(END, job.id, job.claim, row))


@dataclass
class Meter:
    """CPU seconds of this process and of the server."""

    postmaster: int
    python: float = 0.0
    server: float = 0.0
    wall: float = 0.0

    def read(self) -> tuple[float, float, float]:
        return time.process_time(), server_seconds(self.postmaster), time.perf_counter()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Meter"]:
        before = self.read()
        yield self
        after = self.read()
        self.python, self.server, self.wall = (b - a for a, b in zip(before, after, strict=True))


def server_seconds(postmaster: int) -> float:
    """The postmaster, its living children, and those it has already buried."""
    ticks = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(entry) == postmaster:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == postmaster:
                ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def at_rate(system: System, db: Database, meter: Meter, rate: float) -> str:
    """Enqueues evenly; enqueue → start is measured from the answer to the insert."""
    system.started.clear()
    enqueued: dict[int, float] = {}

    async def enqueue(connection: Connection) -> None:
        row = await connection.fetchval(ENQUEUE, "acme")
        enqueued[row] = time.perf_counter()
        system.wake()

    async with db.connection() as connection, meter.running():
        begin = time.perf_counter()
        for number in range(int(rate * SECONDS)):
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            await enqueue(connection)
        await until_done(db)
    waits = sorted(system.started[row] - moment for row, moment in enqueued.items())
    return line(f"{system.name} {rate:.0f}/s", meter, len(waits)) + latency(waits)


async def saturated(system: System, db: Database, meter: Meter) -> str:
    await db.execute(
        """
        WITH rows AS (INSERT INTO bench (state)
                      SELECT 'new' FROM generate_series(1, $1::integer) RETURNING id)
        SELECT count(job_enqueue('bench.work', 'acme', jsonb_build_object('row', id))) FROM rows
        """,
        BACKLOG,
    )
    await db.execute("VACUUM ANALYZE jobs")
    async with meter.running():
        system.wake()
        await until_done(db)
    return line(f"{system.name} saturated", meter, BACKLOG) + f"{BACKLOG / meter.wall:8.0f} jobs/s"


async def idle(system: System, meter: Meter) -> str:
    await asyncio.sleep(0.5)
    async with meter.running():
        await asyncio.sleep(SECONDS)
    share = [100 * seconds / meter.wall for seconds in (meter.python, meter.server)]
    return f"{system.name + ' idle':28} {share[0]:6.2f} +{share[1]:6.2f} % of a core"


async def until_done(db: Database) -> None:
    while await db.fetchval("SELECT EXISTS (SELECT FROM jobs WHERE status <> 'delayed')"):  # noqa: ASYNC110 - it ends in the database
        await asyncio.sleep(0.02)


def line(name: str, meter: Meter, jobs: int) -> str:
    python, server = 1000 * meter.python / jobs, 1000 * meter.server / jobs
    return f"{name:28} {python:6.3f} +{server:6.3f} ={python + server:7.3f} ms/job"


def latency(waits: list[float]) -> str:
    p50, p99 = (1000 * waits[int(len(waits) * share)] for share in (0.5, 0.99))
    return f"   enqueue → start p50 {p50:5.1f}  p99 {p99:5.1f} ms"


async def measure(url: str, postmaster: int) -> None:
    await migrate(url)
    db = await Database.open(url, pool_size=10)
    await db.execute("CREATE TABLE bench (id bigserial PRIMARY KEY, state text NOT NULL)")
    meter = Meter(postmaster)
    for make in (Bare, Ours):
        system: System = make(db)
        await system.start()
        for rate in (30, 90):
            print(await at_rate(system, db, meter, rate), flush=True)
        print(await saturated(system, db, meter), flush=True)
        if isinstance(system, Ours):
            print(await idle(system, meter), flush=True)
            await with_alarms(system, db, meter)
        await system.stop()
    await db.close()


async def with_alarms(system: Ours, db: Database, meter: Meter) -> None:
    await db.execute(
        """
        SELECT job_enqueue('bench.work', 'acme', '{"row": 0}', NULL, NULL, 0,
                           now() + interval '1 day')
        FROM generate_series(1, $1::integer)
        """,
        ALARMS,
    )
    system.name = f"queue + {ALARMS} alarms"
    print(await at_rate(system, db, meter, 90), flush=True)
    print(await idle(system, meter), flush=True)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory(prefix="safelight-bench-") as directory:
        Path(directory).chmod(0o711)
        server = EmbeddedPostgres(Path(directory, "data"))
        server.start()
        try:
            assert server.pid is not None
            uvloop.run(measure(server.url, server.pid))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
