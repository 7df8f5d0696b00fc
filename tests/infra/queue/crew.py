"""A queue, a bus and a worker in this process, and workers in processes of their own."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock
from safelight.infra.queue.handlers import Handler, OnDead
from safelight.infra.queue.jobs import Backoff, Done, Job, JobId, JobKind, Schedule, Verdict
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.testing import waiting

_owners = count(1)
until = waiting.until  # whoever has a crew waits for it
NEVER = 30.0  # a poll so rare that only a wake-up can explain a start


@dataclass(frozen=True, slots=True)
class Number:
    n: int


def a_kind(name: str = "test.work", **options: Any) -> JobKind[Number]:
    options.setdefault("retry", Backoff(attempts=3, first=0.05, cap=0.2))
    return JobKind(name, payload=Number, **options)


WORK = a_kind(limit=16)


async def never_end(_: Job[Number]) -> Verdict:
    """Until it is cancelled."""
    await asyncio.Event().wait()
    return Done()


async def succeed(_: Job[Number]) -> Verdict:
    return Done()


@dataclass
class Starts:
    """A handler that notes who started when, then does what it is told."""

    then: Callable[[Job[Number]], Awaitable[Verdict]] = succeed
    seen: list[tuple[int, float, Job[Number]]] = field(default_factory=list)

    async def __call__(self, job: Job[Number]) -> Verdict:
        self.seen.append((job.payload.n, time.monotonic(), job))
        return await self.then(job)

    @property
    def numbers(self) -> list[int]:
        return [number for number, _, _ in self.seen]


@dataclass
class Crew:
    db: Database
    bus: Bus
    queue: Queue
    worker: Worker

    async def add(self, number: int, kind: JobKind[Number] = WORK, **options: Any) -> JobId | None:
        options.setdefault("organization", "acme")
        return await self.queue.enqueue(self.db, kind, Number(number), **options)

    async def add_many(self, amount: int, kind: str = "test.work", tenant: str = "acme") -> None:
        await add_many(self.db, amount, kind, tenant)
        self.bus.announce("jobs", kind)


async def add_many(
    db: Database, amount: int, kind: str = "test.work", organization: str = "acme"
) -> None:
    await db.execute(
        """
        SELECT job_enqueue($2, $3, jsonb_build_object('n', i)) FROM generate_series(1, $1::int) AS i
        """,
        amount,
        kind,
        organization,
    )


def a_queue(
    db: Database,
    kinds: Iterable[JobKind[Any]] = (WORK,),
    *,
    node: str = "here",
    lease: float = 10.0,
) -> Queue:
    """Without a worker and without a listening bus: what `serve --no-worker` or a command has."""
    owner = f"owner-{next(_owners)}"
    return Queue(
        db, Bus(db, owner), SystemClock(), owner=owner, node=node, kinds=kinds, lease=lease
    )


@asynccontextmanager
async def crew(
    db: Database,
    handle: Callable[[Job[Number]], Awaitable[Verdict]] = succeed,
    *,
    kind: JobKind[Number] = WORK,
    on_dead: OnDead[Number] | None = None,
    others: Sequence[Handler[Any]] = (),
    schedules: Sequence[Schedule] = (),
    node: str = "here",
    lease: float = 10.0,
    poll: float = 1.0,
    grace: float = 1.5,
    quiet: float = 5.0,
) -> AsyncIterator[Crew]:
    handlers = [Handler(kind, handle, on_dead), *others]
    queue = a_queue(db, [handler.kind for handler in handlers], node=node, lease=lease)
    await queue.bus.start()
    worker = Worker(queue, handlers, schedules, poll=poll, grace=grace, quiet=quiet)
    await worker.start()
    try:
        yield Crew(db, queue.bus, queue, worker)
    finally:
        await worker.stop(5)
        await queue.bus.stop()


async def rows(db: Database) -> list[dict[str, Any]]:
    return [dict(row) for row in await db.fetch("SELECT * FROM jobs ORDER BY id")]


async def nothing_left(db: Database) -> bool:
    return bool(await db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)"))


async def end_leases(db: Database) -> None:
    """Leases are on the database's clock; time passes by moving the rows."""
    await db.execute("UPDATE jobs SET lease_until = now() WHERE status = 'running'")


async def note_effects(db: Database) -> None:
    """Where labourers write: a line when they are ready, and per start, per effect, per tick."""
    await db.execute("CREATE TABLE ready (owner text)")
    await db.execute("CREATE TABLE starts (job bigint, deaths int, owner text)")
    await db.execute("CREATE TABLE effects (job bigint, deaths int, owner text)")
    await db.execute("CREATE TABLE ticks (fired timestamptz, owner text)")


@dataclass
class Labourer:
    """A worker in a process of its own."""

    process: subprocess.Popen[bytes]

    @classmethod
    def hire(cls, url: str, behaviour: str, lease: float, owner: str) -> "Labourer":
        program = str(Path(__file__).with_name("labourer.py"))
        arguments = [sys.executable, program, url, behaviour, str(lease), owner]
        return cls(subprocess.Popen(arguments, stderr=subprocess.PIPE))

    def kill(self) -> None:
        self.process.kill()
        self.dismiss()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.dismiss()

    def dismiss(self) -> str:
        """Waits for its end; what it had to say, the first time."""
        if self.process.stderr is None or self.process.stderr.closed:
            return ""
        _, said = self.process.communicate(timeout=20)
        return said.decode()
