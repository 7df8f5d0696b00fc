"""Units of work, which write history, and the reading of it.

A unit is a transaction, the history it tells, the job it ends, and the news afterwards:

    async with self._units.open(organization) as unit:
        row = await repo.lock(unit.connection, row_id)
        await repo.move(unit.connection, row.id, State.PUBLISHED, unit.now)
        unit.tell(Line(row.subject, "moved", {...}))
        unit.ends(job)

Guarantees
- Everything written in it commits together with its history and the end of its job, or not at all.
- Its last statement, which takes the organization's lock, travels in one message with COMMIT: no
  other writer of the organization waits for anything but the server, whatever becomes of us.
- A job that is somebody else's by now raises `LeaseLost`, and nothing was written.
- Listeners and workers are told after the commit and never of what was rolled back.
- A unit that stands still for ten seconds is rolled back by the server (db.py): the slow thing is
  done before it, or after it.

Gap: what is told in memory is lost if the process dies right after the commit; the queue's poll and
the reader's next look make up for it.

A statement that is a whole unit by itself (a function in sql/ that appends its history last) needs
no transaction here; its caller calls `announce` afterwards.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import asyncpg

from safelight.infra.bus import Bus
from safelight.infra.db import (
    Connection,
    Database,
    commit,
    commit_with,
    literal,
    read,
)
from safelight.infra.failpoints import reach
from safelight.infra.history import Activity, Line
from safelight.infra.injected import Clock
from safelight.infra.queue import repo as queue
from safelight.infra.queue.jobs import ACTIVITY, TIMETABLE, TOPIC, Job, JobId, JobKind, LeaseLost
from safelight.infra.queue.places import FreeSlots, JobPlace

P = TypeVar("P")
Adopt = Callable[[Job[Any]], None]
_LEASE_LOST = "SL002"


def to_json(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """As `activity_append` in SQL takes them."""
    return [
        {"subject": line.subject, "also": line.also, "type": line.type, "data": line.data}
        for line in lines
    ]


class Unit:
    def __init__(self, connection: Connection, organization: str, now: int) -> None:
        self.connection = connection
        self.organization = organization
        self.now = now  # one moment for everything it writes
        self._told: dict[str, list[Line]] = {}
        self._job: Job[Any] | None = None
        self._news: dict[tuple[str, str], None] = {}

    def tell(self, *lines: Line) -> None:
        """Written at the end, in this order."""
        self.tell_others(self.organization, *lines)

    def tell_others(self, organization: str, *lines: Line) -> None:
        """The same in the history of another organization. Nobody's has none."""
        if organization and lines:
            self._told.setdefault(organization, []).extend(lines)

    def ends(self, job: Job[Any]) -> None:
        """This unit is the job's last word; its handler returns `Done(already=True)`."""
        self._job = job

    async def put_off(self, job: Job[Any], seconds: float) -> None:
        """The job has done its part for now and comes back, its attempts unspent."""
        if not await queue.put_off(self.connection, job, seconds):
            raise LeaseLost
        self.announce(TOPIC, TIMETABLE)

    async def hold(self, job: Job[Any]) -> None:
        """Raises `LeaseLost` unless the job is still ours; then it stays so until the end."""
        if not await queue.hold(self.connection, job):
            raise LeaseLost

    async def enqueue(
        self,
        kind: JobKind[P],
        payload: P,
        *,
        key: str | None = None,
        run_at: datetime | None = None,
        run_in: float | None = None,
    ) -> bool:
        """Of this unit's organization. False: a living job has the key."""
        organization = self.organization
        added = await queue.enqueue(
            self.connection, kind, payload, organization, key=key, run_at=run_at, run_in=run_in
        )
        later = run_at is not None or run_in is not None
        self.announce(TOPIC, TIMETABLE if later else kind.name)
        return added is not None

    async def cancel(self, kind: JobKind[Any], key: str) -> bool:
        """Takes a waiting job away; one that runs goes on."""
        gone = await queue.cancel(self.connection, kind.name, key, running=False)
        return gone is not None

    async def run_now(self, kind: JobKind[P], payload: P, *, key: str) -> None:
        """A job of the key that waits is moved; one that runs looks again before it ends."""
        if not await self.enqueue(kind, payload, key=key):
            await queue.reschedule(self.connection, kind.name, key, None, 0)

    def announce(self, topic: str, detail: str) -> None:
        """News for the bus, after the commit; each once."""
        self._news[topic, detail] = None

    async def close(self) -> None:
        """The last statement, if there is something to tell or to end, and COMMIT with it."""
        closing = self._closing()
        if not closing:
            await commit(self.connection)
            return
        try:
            await reach("unit.close")
            await commit_with(self.connection, closing)
        except asyncpg.PostgresError as error:
            if error.sqlstate == _LEASE_LOST:
                raise LeaseLost from error
            raise
        for organization in self._told:
            self.announce(ACTIVITY, organization)

    def _closing(self) -> str:
        if self._job is None and not self._told:
            return ""
        job_id, claim = (self._job.id, self._job.claim) if self._job else (None, None)
        told = [
            {"organization": organization, "lines": to_json(lines)}
            for organization, lines in self._told.items()
        ]
        values = (job_id, claim, self.now, json.dumps(told))
        return f"SELECT unit_finish({', '.join(map(literal, values))})"

    def spread(self, bus: Bus) -> None:
        """After the commit."""
        for topic, detail in self._news:
            bus.announce(topic, detail)


class Units:
    """Opens them. One per process, and one more for a feature each of whose commits is `news`."""

    def __init__(
        self, db: Database, bus: Bus, clock: Clock, *, news: tuple[str, str] | None = None
    ) -> None:
        self.db = db
        self.clock = clock
        self._bus = bus
        self._news = news
        self._adopt: Adopt | None = None
        self._slots: FreeSlots | None = None
        self._owner: str | None = None

    @asynccontextmanager
    async def open(self, organization: str) -> AsyncIterator[Unit]:
        """`organization` is '' for Safelight's own work, which has no history of its own."""
        async with self.db.connection() as connection:
            await self.db.begin(connection)
            unit = Unit(connection, organization, self.clock.now_ms())
            yield unit
            await unit.close()
        if self._news:
            unit.announce(*self._news)
        unit.spread(self._bus)

    # Handing a job to the worker of this process, without anybody having to claim it

    def employ(self, owner: str, adopt: Adopt | None, slots: "FreeSlots | None" = None) -> None:
        """The worker's own: how it takes jobs handed over, or that it no longer does."""
        self._owner, self._adopt, self._slots = owner, adopt, slots

    @contextmanager
    def place(self, kind: JobKind[P], organization: str) -> Iterator["JobPlace[P]"]:
        """For a job that the statement inside enqueues: leased to the worker here if it has room
        for one more, and then run at once. Without room, or a worker, somebody will claim it."""
        room = self._adopt is not None and (
            self._slots is None or self._slots.reserve(kind.name, organization)
        )
        lessee = self._owner if room else None
        hand_over = partial(self.hand_over, kind, organization=organization, lessee=lessee)
        place: JobPlace[P] = JobPlace(hand_over, lessee)
        try:
            yield place
        finally:
            if room and self._slots:
                self._slots.release(kind.name, organization)
            place.settle()

    @property
    def lessee(self) -> str | None:
        """Who can take a job at once, as `p_owner` of `job_enqueue`: the worker here, if any."""
        return self._owner if self._adopt else None

    def hand_over(
        self,
        kind: JobKind[P],
        job_id: int | None,
        payload: P,
        *,
        organization: str | None,
        lessee: str | None,
    ) -> None:
        """After the commit: the worker here at once runs a job that was enqueued for it. One that
        was enqueued for nobody is announced; one that was skipped (no id) is left alone."""
        if job_id is None:
            return
        if lessee is None:
            self._bus.announce(TOPIC, kind.name)
        elif self._adopt and lessee == self._owner:
            self._adopt(Job(JobId(job_id), kind, organization or "", kind.dump(payload), 1, 1))

    def announce(self, organization: str, *kinds: JobKind[Any]) -> None:
        """After a statement that was a unit by itself: its history, and the kinds it enqueued."""
        self._bus.announce(ACTIVITY, organization)
        for kind in kinds:
            self._bus.announce(TOPIC, kind.name)


# Reading


@read
async def of_subject(
    db: Database, organization: str, subject: str, *, after: int, limit: int
) -> list[Activity]:
    """A subject's story, oldest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        """
        SELECT seq, type, at, data FROM (
            (SELECT seq, type, at, data FROM activity
             WHERE organization = $1 AND subject = $2 AND seq > $3 ORDER BY seq LIMIT $4)
            UNION ALL
            (SELECT seq, type, at, data FROM activity
             WHERE organization = $1 AND also = $2 AND seq > $3 ORDER BY seq LIMIT $4)
        ) story ORDER BY seq LIMIT $4
        """,
        organization,
        subject,
        after,
        limit + 1,
    )
    return [Activity(row["seq"], row["type"], row["at"], row["data"]) for row in rows]


@read
async def latest(
    db: Database, organization: str, subjects: list[str], *, before: int | None, limit: int
) -> list[Activity]:
    """The stories of several subjects as one, newest first, each line once; one row more than asked
    tells that there is more."""
    rows = await db.fetch(
        """
        SELECT DISTINCT ON (seq) story.*
        FROM unnest($2::text[]) AS wanted (subject) CROSS JOIN LATERAL (
            (SELECT seq, type, at, data, subject, also FROM activity
             WHERE organization = $1 AND subject = wanted.subject AND seq < $3
             ORDER BY seq DESC LIMIT $4)
            UNION ALL
            (SELECT seq, type, at, data, subject, also FROM activity
             WHERE organization = $1 AND also = wanted.subject AND seq < $3
             ORDER BY seq DESC LIMIT $4)
        ) AS story ORDER BY seq DESC LIMIT $4
        """,
        organization,
        subjects,
        2**63 - 1 if before is None else before,
        limit + 1,
    )
    return [Activity(*row) for row in rows]


@read
async def told(
    db: Connection | Database, organization: str, subject: str, line_type: str
) -> list[dict[str, Any]]:
    """The facts of a subject's lines of one type."""
    rows = await db.fetch(
        "SELECT DISTINCT data FROM activity WHERE organization = $1 AND subject = $2 AND type = $3",
        organization,
        subject,
        line_type,
    )
    return [row["data"] for row in rows]


@read
async def last_moves(
    db: Database, organization: str, subjects: list[str], to: str
) -> dict[str, Activity]:
    """The last line of each subject's story that tells of a move to this state."""
    rows = await db.fetch(
        "SELECT DISTINCT ON (subject) subject, seq, type, at, data FROM activity "
        "WHERE organization = $1 AND subject = ANY($2) AND data ->> 'to' = $3 "
        "ORDER BY subject, seq DESC",
        organization,
        subjects,
        to,
    )
    return {
        row["subject"]: Activity(row["seq"], row["type"], row["at"], row["data"]) for row in rows
    }
