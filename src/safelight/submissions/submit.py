"""Submitting an image for publication."""

from dataclasses import dataclass
from functools import partial

from safelight.errors import InvalidRequest
from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock, Ids
from safelight.infra.queue.queue import Queue
from safelight.submissions import repo
from safelight.submissions.kinds import PROCESS, About
from safelight.submissions.lifecycle import State
from safelight.submissions.moves import received
from safelight.submissions.pin import Pins, Replaced
from safelight.submissions.repo import Submission
from safelight.submissions.sources.registry import Sources
from safelight.submissions.sources.source import Found

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    organization: str
    kind: str
    source_id: str
    title: str | None
    actor: dict[str, str]


@dataclass(frozen=True, slots=True)
class Submit:
    sources: Sources
    pins: Pins
    queue: Queue
    bus: Bus
    clock: Clock
    ids: Ids

    async def submit(self, wanted: Wanted) -> Submission:
        """Pinned, recorded, told and queued in one transaction."""
        source = self.sources.get(wanted.kind)
        if source is None:
            raise InvalidRequest(f"source: choose one of {', '.join(self.sources)}.")
        submission = await self._pinned(wanted)
        self.queue.wake(PROCESS)
        self.bus.announce("activity", wanted.organization)
        return submission

    async def _pinned(self, wanted: Wanted) -> Submission:
        for _ in range(_TRIES):
            found = await self.sources[wanted.kind].find(wanted.organization, wanted.source_id)
            submission_id = self.ids.short("sub")

            record = partial(self._record, wanted, found, submission_id)
            try:
                return await self.pins.pin(found, submission_id, record)
            except Replaced:
                continue  # look again: something else has the name by now
        raise Replaced

    async def _record(
        self, wanted: Wanted, found: Found, new: str, connection: Connection, checksum: str
    ) -> Submission:
        submission = _new(wanted, found, new, checksum, self.clock.now_ms())
        await reach("submissions.add")
        await repo.add(connection, submission)
        await self.queue.enqueue(
            connection, PROCESS, About(new), organization=wanted.organization, key=new
        )
        await reach("submissions.tell")
        await activity.append(
            connection, wanted.organization, submission.created_at, received(submission)
        )
        return submission


def _new(wanted: Wanted, found: Found, new: str, checksum: str, now: int) -> Submission:
    return Submission(
        id=new,
        organization=wanted.organization,
        title=wanted.title,
        submitted_by=wanted.actor,
        source_kind=wanted.kind,
        source_id=wanted.source_id,
        source_marker=found.marker,
        source_time=found.time,
        source_current=True,
        checksum=checksum,
        content_type=found.content_type,
        size_bytes=found.size,
        state=State.RECEIVED,
        run=0,
        findings=[],
        rejection=None,
        approval_id=None,
        dhash=None,
        phash=None,
        rendition_type=None,
        rendition_size=None,
        rendition_etag=None,
        created_at=now,
        updated_at=now,
    )
