"""Jobs that gave up: buried with their error, listed, and redriven or discarded by a person.

Each of the three is one transaction with its line of history. A dead letter that was redriven is
remembered for two days, so that redriving it again is a conflict even after it ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from safelight.errors import Conflict, NotFound, SafelightError
from safelight.infra import activity, kv
from safelight.infra.activity import Entry
from safelight.infra.bus import Bus
from safelight.infra.clock import Clock
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.queue import repo
from safelight.infra.queue.jobs import DAY, TOPIC, Failure, Handler, Job, JobId, JobKind
from safelight.infra.queue.repo import DeadRow

P = TypeVar("P")

_REMEMBERED_MS = 2 * DAY * 1000
_LARGEST_ID = 2**63 - 1
_NO_SUCH = "There is no such dead letter."


class NotDead(Conflict):
    """This job is not a dead letter any more: it was redriven already."""


class TwinAlive(Conflict):
    """A newer job with the same key is waiting or running: wait for its end, or discard this."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: JobId
    kind: str
    organization: str | None
    subject: str | None
    error: dict[str, str]
    attempts: int
    first_at: int
    died_at: int
    payload: dict[str, Any]
    cursor: tuple[int, int]


class DeadLetters:
    """`organization` narrows a verb to one tenant's; None means everybody's and the system's."""

    def __init__(
        self, db: Database, bus: Bus, clock: Clock, kinds: Mapping[str, JobKind[Any]]
    ) -> None:
        self._db = db
        self._bus = bus
        self._clock = clock
        self._kinds = kinds

    async def page(
        self,
        *,
        organization: str | None = None,
        kind: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[DeadLetter]:
        """Latest death first; one more than `limit` tells that there are more. `before` is the
        `cursor` of the last one seen."""
        rows = await repo.dead_letters(self._db, organization, kind, before, limit + 1)
        return [self._letter(row) for row in rows]

    async def bury(self, handler: Handler[P], job: Job[P], failure: Failure) -> bool:
        """Its state, its hook and its history, or nothing. False: no longer the caller's."""
        async with self._db.transaction() as connection:
            await reach("queue.bury")
            if not await repo.bury(connection, job, failure):
                return False
            told = await handler.on_dead(connection, job, failure) if handler.on_dead else ()
            facts = {"attempt": job.attempt, "error": failure.to_json()}
            entry = self._entry("job_dead", job.id, job.kind.name, job.raw, facts)
            await self._record(connection, job.organization, entry, *told)
        self._announce(job.organization)
        return True

    async def redrive(
        self, job_id: int, *, organization: str | None = None, actor: dict[str, str] | None = None
    ) -> None:
        """Runs it again at once, with a full budget and its old id."""
        _refuse_impossible(job_id)
        async with self._db.transaction() as connection:
            await reach("queue.redrive")
            try:
                row = await repo.redrive(connection, job_id, organization)
            except asyncpg.UniqueViolationError as error:
                raise TwinAlive from error
            if row is None:
                raise await self._refusal(connection, job_id, organization)
            owner = row["organization"]
            await self._remember(connection, job_id, owner)
            await self._record_verb(connection, "job_redriven", job_id, row, actor)
        self._bus.announce(TOPIC, row["kind"])
        self._announce(owner)

    async def discard(
        self, job_id: int, *, organization: str | None = None, actor: dict[str, str] | None = None
    ) -> None:
        _refuse_impossible(job_id)
        async with self._db.transaction() as connection:
            await reach("queue.discard")
            row = await repo.discard(connection, job_id, organization)
            if row is None:
                raise await self._refusal(connection, job_id, organization)
            await self._record_verb(connection, "job_discarded", job_id, row, actor)
        self._announce(row["organization"])

    async def _remember(self, connection: Connection, job_id: int, organization: str) -> None:
        now = self._clock.now_ms()
        await kv.put(connection, _redriven(job_id), organization, now=now, ttl_ms=_REMEMBERED_MS)

    async def _refusal(
        self, connection: Connection, job_id: int, organization: str | None
    ) -> SafelightError:
        if await repo.is_there(connection, job_id, organization):
            return NotDead()
        owner = await kv.get(connection, _redriven(job_id), now=self._clock.now_ms())
        known = owner is not None and organization in {None, owner}
        return NotDead() if known else NotFound(_NO_SUCH)

    async def _record_verb(
        self,
        connection: Connection,
        verb: str,
        job_id: int,
        row: asyncpg.Record,
        actor: dict[str, str] | None,
    ) -> None:
        facts = {"actor": actor} if actor else {}
        entry = self._entry(verb, job_id, row["kind"], row["payload"], facts)
        await self._record(connection, row["organization"], entry)

    async def _record(self, connection: Connection, organization: str, *entries: Entry) -> None:
        """The system's own jobs belong to nobody's history."""
        if organization:
            await activity.append(connection, organization, self._clock.now_ms(), *entries)

    def _announce(self, organization: str) -> None:
        if organization:
            self._bus.announce("activity", organization)

    def _entry(
        self, verb: str, job_id: int, kind: str, raw: Mapping[str, Any], facts: dict[str, Any]
    ) -> Entry:
        subject = self._subject(kind, raw) or f"job:{job_id}"
        return Entry(subject, verb, {"jobId": job_id, "kind": kind, **facts})

    def _subject(self, kind: str, raw: Mapping[str, Any]) -> str | None:
        known = self._kinds.get(kind)
        return known.subject_of(raw) if known else None

    def _letter(self, row: DeadRow) -> DeadLetter:
        return DeadLetter(
            id=JobId(row.id),
            kind=row.kind,
            organization=row.organization or None,
            subject=self._subject(row.kind, row.payload),
            error=row.error,
            attempts=row.attempts,
            first_at=row.first_at,
            died_at=row.died_at,
            payload=row.payload,
            cursor=(row.died_us, row.id),
        )


def _refuse_impossible(job_id: int) -> None:
    if not 0 < job_id <= _LARGEST_ID:
        raise NotFound(_NO_SUCH)


def _redriven(job_id: int) -> str:
    return f"redriven:{job_id}"
