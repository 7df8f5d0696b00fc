"""The queue: jobs in PostgreSQL, enqueued in the caller's transaction, run by the worker.

Guarantees
- A job exists if and only if the transaction that enqueued it committed. It is run until it ends,
  dies or is cancelled; a worker that is killed, hangs or loses the database loses its job to
  another. What fails counts against the kind's attempts, lost workers against a budget of their
  own, and surroundings that are away against nothing.
- Only the holder of the latest claim can end, retry or bury a job (the fence). A handler may run
  twice, but it ends once; a unit of work makes its own writes part of that.
- A living key is unique per kind; enqueueing it again is skipped, never an error.
- A dead job stays, with its error, until a person redrives or discards it.

Gaps
- Handlers run at least once, not exactly once. Effects outside the database need a guard of theirs.
- Order is by priority, then fair between organizations, then by age; nothing is promised between
  two jobs that run at the same time.
- Up to a second of throughput counts is lost by kill -9; jobs are not.
- A wake-up that is lost (a crash right after commit) costs at most the worker's poll of a second.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from safelight.infra.activity import Adopt, Units
from safelight.infra.bus import Bus
from safelight.infra.db import Connection, Database
from safelight.infra.injected import Clock
from safelight.infra.queue import repo
from safelight.infra.queue.dead_letters import DeadLetters
from safelight.infra.queue.jobs import (
    TIMETABLE,
    TOPIC,
    HourCount,
    JobId,
    JobKind,
    KindStatus,
    by_name,
)
from safelight.infra.queue.places import FreeSlots

P = TypeVar("P")

LEASE_SECONDS = 10.0


class Queue:
    """One per process. A worker, if the process has one, works under this queue's `owner`."""

    def __init__(
        self,
        db: Database,
        bus: Bus,
        clock: Clock,
        *,
        owner: str,
        node: str,
        kinds: Iterable[JobKind[Any]],
        lease: float = LEASE_SECONDS,
        units: Units | None = None,
    ) -> None:
        self.db = db
        self.bus = bus
        self.owner = owner
        self.node = node
        self.kinds = by_name(kinds)
        self.units = units or Units(db, bus, clock)
        self.dead_letters = DeadLetters(self.units, self.kinds)
        self.lease = timedelta(seconds=lease)

    # Enqueueing

    async def enqueue(
        self,
        connection: Connection | Database,
        kind: JobKind[P],
        payload: P,
        *,
        organization: str | None,
        key: str | None = None,
        run_at: datetime | None = None,
        run_in: float | None = None,
        node: str | None = None,
        priority: int = 0,
        lessee: str | None = None,
    ) -> JobId | None:
        """None: a living job has the key. Inside a transaction, call `wake` (or, with a lessee,
        `hand_over`) after the commit; a unit of work does that by itself (`unit.enqueue`)."""
        job_id = await repo.enqueue(
            connection, kind, payload, organization or "", key=key, node=node, priority=priority,
            run_at=run_at, run_in=run_in, owner=lessee, lease=self.lease,
        )  # fmt: skip
        if job_id is None:
            return None
        if _committed(connection) and (run_at or run_in is not None):
            self.wake()
        elif _committed(connection):
            self.hand_over(kind, job_id, payload, organization=organization, lessee=lessee)
        return JobId(job_id)

    def wake(self, *kinds: JobKind[Any]) -> None:
        """Tells workers, here and elsewhere, of committed jobs; without kinds, of delayed ones."""
        for name in [kind.name for kind in kinds] or [TIMETABLE]:
            self.bus.announce(TOPIC, name)

    @property
    def lessee(self) -> str | None:
        """Who can take a job at once, as `p_owner` of `job_enqueue`: the worker here, if any."""
        return self.units.lessee

    def hand_over(
        self,
        kind: JobKind[P],
        job_id: int | None,
        payload: P,
        *,
        organization: str | None,
        lessee: str | None,
    ) -> None:
        self.units.hand_over(kind, job_id, payload, organization=organization, lessee=lessee)

    def employ(self, adopt: Adopt | None, slots: FreeSlots | None = None) -> None:
        """The worker's own: how it takes jobs handed over, or that it no longer does."""
        self.units.employ(self.owner, adopt, slots)

    async def cancel(
        self,
        connection: Connection | Database,
        kind: JobKind[Any],
        key: str,
        *,
        running: bool = False,
    ) -> bool:
        """Takes a waiting job away. A `running` one goes on, but the fence refuses its end."""
        return await repo.cancel(connection, kind.name, key, running=running) is not None

    async def reschedule(
        self,
        connection: Connection | Database,
        kind: JobKind[Any],
        key: str,
        *,
        run_at: datetime | None = None,
        run_in: float | None = None,
    ) -> bool:
        """Moves a waiting job; false if it runs already or is gone. Inside a transaction, call
        `wake` after the commit."""
        moved = await repo.reschedule(connection, kind.name, key, run_at, run_in)
        if _committed(connection):
            self.wake()
        return moved is not None

    async def adopt(self, kind: JobKind[Any], keys: Sequence[str]) -> int:
        """Makes jobs this node's whose files are here, whichever node they were of."""
        adopted = await repo.adopt(self.db, kind.name, keys, self.node) if keys else 0
        if adopted:
            self.wake(kind)
        return adopted

    # Looking at it

    async def status(self) -> list[KindStatus]:
        """Every kind, also those without a job."""
        found = {row.name: row for row in await repo.status(self.db)}
        names = sorted(self.kinds.keys() | found.keys())
        return [found.get(name, KindStatus(name)) for name in names]

    async def living(
        self,
        connection: Connection | Database,
        kind: JobKind[Any],
        field: str,
        wanted: Sequence[tuple[str, str]],
    ) -> set[tuple[str, str]]:
        """Of organizations and values of a payload's field: those with a job that waits or runs."""
        return await repo.living(connection, kind.name, field, wanted)

    async def throughput(self, hours: int = 24) -> list[HourCount]:
        """The present hour last; hours without work are there too."""
        return await repo.throughput(self.db, hours)


def _committed(connection: Connection | Database) -> bool:
    return isinstance(connection, Database) or not connection.is_in_transaction()
