"""Jobs that gave up: buried with their error, listed, and redriven or discarded by a person, one by
one or all of a kind.

Each of the three is one transaction with its line of history. A dead letter that was redriven is
remembered for two days, so that redriving it again is a conflict even after it ended.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from safelight.errors import Conflict, NotFound, SafelightError
from safelight.infra import kv
from safelight.infra.activity import Unit, Units
from safelight.infra.history import SYSTEM, Line
from safelight.infra.queue import repo, watched
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import (
    DAY,
    TOPIC,
    DeadLetter,
    Failure,
    Job,
    JobId,
    JobKind,
)

P = TypeVar("P")

OnRedrive = Callable[[Unit, P], Awaitable[None]]

AT_ONCE = 200
_REMEMBERED_MS = 2 * DAY * 1000
_LARGEST_ID = 2**63 - 1
_NO_SUCH = "There is no such dead letter."


class NotDead(Conflict):
    """This job is not a dead letter any more: it was redriven already."""


class TwinAlive(Conflict):
    """A newer job with the same key is waiting or running: wait for its end, or discard this."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How many were, of many, and how many such there are still."""

    settled: int
    remaining: int


@dataclass(frozen=True, slots=True)
class _Which:
    """Of many: whose, of which kind, and what they died of; None narrows nothing."""

    organization: str | None
    kind: str | None
    code: str | None


class DeadLetters:
    """`organization` narrows a verb to one tenant's; None means everybody's and the system's."""

    def __init__(self, units: Units, kinds: Mapping[str, JobKind[Any]]) -> None:
        self._units = units
        self._db = units.db
        self._kinds = kinds
        self._on_redrive: dict[str, OnRedrive[Any]] = {}

    def when_redriven(self, kind: JobKind[P], follow: OnRedrive[P]) -> None:
        """`follow` runs in the unit that redrives a job of the kind, also where no worker is."""
        self._on_redrive[kind.name] = follow

    async def page(
        self,
        *,
        organization: str | None = None,
        kind: str | None = None,
        code: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[DeadLetter]:
        """Latest death first; one more than `limit` tells that there are more. `before` is the
        `cursor` of the last one seen, `code` that of what it died of."""
        rows = await repo.dead_letters(self._db, organization, kind, before, limit + 1, code)
        return [self._letter(row) for row in rows]

    async def bury(self, handler: Handler[P], job: Job[P], failure: Failure) -> bool:
        """Its state, its hook and its history, or nothing. False: no longer the caller's."""
        async with self._units.open(job.organization) as unit:
            if not await repo.bury(unit.connection, job, failure):
                return False
            facts = {"attempt": job.starts, "error": failure.to_json()}
            unit.tell(self._line("job_dead", job.id, job.kind.name, job.raw, facts))
            if handler.on_dead:
                await handler.on_dead(unit, job, failure)
        return True

    async def redrive(
        self, job_id: int, *, organization: str | None = None, actor: dict[str, str] | None = None
    ) -> None:
        """Runs it again at once, with a full budget and its old id."""
        owner = await self._owner(job_id, organization)
        async with self._units.open(owner) as unit:
            try:
                row = await repo.redrive(unit.connection, job_id, organization)
            except asyncpg.UniqueViolationError as error:
                raise TwinAlive from error
            if row is None:
                raise await self._refusal(job_id, organization)
            now = unit.now
            await kv.put(unit.connection, _redriven(job_id), owner, now=now, ttl_ms=_REMEMBERED_MS)
            unit.tell(self._verb("job_redriven", job_id, row, actor))
            if follow := self._on_redrive.get(row["kind"]):
                await follow(unit, self._kinds[row["kind"]].payload(**row["payload"]))
            unit.announce(TOPIC, row["kind"])

    async def discard(
        self, job_id: int, *, organization: str | None = None, actor: dict[str, str] | None = None
    ) -> None:
        owner = await self._owner(job_id, organization)
        async with self._units.open(owner) as unit:
            row = await repo.discard(unit.connection, job_id, organization)
            if row is None:
                raise await self._refusal(job_id, organization)
            unit.tell(self._verb("job_discarded", job_id, row, actor))

    async def count(self, organization: str | None = None) -> int:
        return await repo.count_dead(self._db, organization, None, None)

    async def groups(self, few: int, organization: str | None = None) -> list[watched.LetterGroup]:
        """By kind and by what they died of, the largest first, with the latest few of each."""
        return await watched.dead_groups(self._db, organization, few)

    async def among(self, ids: Sequence[int]) -> dict[int, DeadLetter]:
        """Those of these that are still there."""
        return {row["id"]: self._letter(row) for row in await repo.dead_among(self._db, ids)}

    # Many at once: a bounded number, each by itself, so that whoever asked goes on where it ended

    async def redrive_all(
        self,
        *,
        kind: str | None = None,
        code: str | None = None,
        organization: str | None = None,
        actor: dict[str, str] | None = None,
    ) -> Settled:
        """Those whose key has a newer job stay."""
        return await self._all(self.redrive, _Which(organization, kind, code), actor)

    async def discard_all(
        self,
        *,
        kind: str | None = None,
        code: str | None = None,
        organization: str | None = None,
        actor: dict[str, str] | None = None,
    ) -> Settled:
        return await self._all(self.discard, _Which(organization, kind, code), actor)

    async def _all(
        self,
        verb: Callable[..., Awaitable[None]],
        which: _Which,
        actor: dict[str, str] | None,
    ) -> Settled:
        settled = 0
        async for letter in self._each(which):
            if settled == AT_ONCE:
                break
            with suppress(NotDead, TwinAlive, NotFound):  # somebody was quicker
                await verb(letter.id, organization=which.organization, actor=actor)
                settled += 1
        left = await repo.count_dead(self._db, which.organization, which.kind, which.code)
        return Settled(settled, left)

    async def _each(self, which: _Which) -> AsyncIterator[DeadLetter]:
        before = None
        while True:
            found = await self.page(
                organization=which.organization,
                kind=which.kind,
                code=which.code,
                before=before,
                limit=AT_ONCE,
            )
            for letter in found[:AT_ONCE]:
                yield letter
            if len(found) <= AT_ONCE:
                return
            before = found[AT_ONCE - 1].cursor

    # Within somebody else's unit

    async def about(
        self, unit: Unit, kind: JobKind[Any], facts: Mapping[str, Any]
    ) -> list[DeadLetter]:
        """Those of the unit's organization whose payload says all of that, the newest first."""
        rows = await repo.letters_about(unit.connection, kind.name, unit.organization, facts)
        return [self._letter(row) for row in rows]

    async def discard_in(self, unit: Unit, letter: DeadLetter, reason: str) -> None:
        """For one that the unit makes needless; somebody may have been quicker."""
        row = await repo.discard(unit.connection, letter.id, unit.organization)
        if row is not None:
            facts = {"reason": reason, "actor": SYSTEM}
            line = self._line("job_discarded", letter.id, letter.kind, letter.payload, facts)
            unit.tell(line)

    async def _owner(self, job_id: int, organization: str | None) -> str:
        """Whose history tells of it; the system's own jobs belong to nobody's."""
        if not 0 < job_id <= _LARGEST_ID:
            raise NotFound(_NO_SUCH)
        owner = await repo.organization_of(self._db, job_id, organization)
        if owner is None:
            raise await self._refusal(job_id, organization)
        return owner

    async def _refusal(self, job_id: int, organization: str | None) -> SafelightError:
        if await repo.organization_of(self._db, job_id, organization) is not None:
            return NotDead()
        owner = await kv.get(self._db, _redriven(job_id), now=self._units.clock.now_ms())
        known = owner is not None and organization in {None, owner}
        return NotDead() if known else NotFound(_NO_SUCH)

    def _verb(
        self, verb: str, job_id: int, row: asyncpg.Record, actor: dict[str, str] | None
    ) -> Line:
        facts = {"actor": actor} if actor else {}
        return self._line(verb, job_id, row["kind"], row["payload"], facts)

    def _line(
        self, verb: str, job_id: int, kind: str, raw: Mapping[str, Any], facts: dict[str, Any]
    ) -> Line:
        subject = self._subject(kind, raw) or f"job:{job_id}"
        return Line(subject, verb, {"jobId": job_id, "kind": kind, **facts})

    def _subject(self, kind: str, raw: Mapping[str, Any]) -> str | None:
        known = self._kinds.get(kind)
        return known.subject_of(raw) if known else None

    def _letter(self, row: asyncpg.Record) -> DeadLetter:
        return DeadLetter(
            id=JobId(row["id"]),
            kind=row["kind"],
            organization=row["organization"] or None,
            subject=self._subject(row["kind"], row["payload"]),
            error=row["error"],
            attempts=row["attempts"],
            first_at=row["first_at"],
            died_at=row["died_us"] // 1000,
            payload=row["payload"],
            cursor=(row["died_us"], row["id"]),
        )


def _redriven(job_id: int) -> str:
    return f"redriven:{job_id}"
