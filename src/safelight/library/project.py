"""Carries out what order.py decides: one event, one transaction under the name's lock.

Why it is safe to run twice, late or beside itself: the decision is made from rows read after the
lock was taken, and the writes, the history and the end of the delivery job commit together. The run
of a marker is started by the same transaction that writes the marker, so neither can exist without
the other. Starting is strict: what already works for the marker is stopped first, in the queue,
which outranks our own notes, and a clash fails the attempt so that the retry looks again. Deleting
is lenient: a run that could not be stopped in time finds no row to write to.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from safelight.infra.activity import Unit, Units
from safelight.infra.db import Database
from safelight.infra.fresh import Fresh
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import TOPIC, Done, Job, JobKind, Verdict
from safelight.library import repo
from safelight.library.order import (
    BeatenBy,
    CreateDecision,
    CreateFacts,
    DeleteDecision,
    KeepTombstone,
    Mark,
    MoveTime,
    Present,
    RemoveRow,
    Skip,
    SkipReason,
    Snapshot,
    Stamp,
    StartRun,
    WriteMarker,
    decide_create,
    decide_delete,
    delete_is_doubtful,
)
from safelight.objects import repo as objects
from safelight.objects.events import OURS, Action, ObjectEvent
from safelight.objects.jobs import DeliverPayload
from safelight.objects.keys import split_key
from safelight.objects.store import NoSuchObject, ObjectStore, StoreUnavailable

_MOST_DIGITS = 9
_LOOKS = 5
_TOLD = {SkipReason.STALE, SkipReason.DUPLICATE, SkipReason.SUPERSEDED, SkipReason.SAME_UPLOAD}
_UNUSABLE = {SkipReason.OBJECT_MISSING, SkipReason.UNUSABLE_METADATA}

log = structlog.get_logger()

Reaction = Callable[[ObjectEvent, Job[DeliverPayload]], Awaitable[Verdict]]
Reactions = Mapping[Action, Sequence[Reaction]]


class Deliver:
    """Takes an event to those who react to it, at least once, in their order. The last one is the
    projection, which ends the job in its own statement and marks the event as delivered there."""

    def __init__(self, db: Database, reactions: Reactions) -> None:
        self._db = db
        self._reactions = reactions
        self._fresh: Fresh[int, ObjectEvent] = Fresh()

    def remember(self, event: ObjectEvent) -> None:
        """Events never change."""
        self._fresh.remember(event.id, event)

    async def handle(self, job: Job[DeliverPayload]) -> Verdict:
        event_id = job.payload.eventId
        event = self._fresh.take(event_id) or await objects.event(self._db, event_id)
        verdict: Verdict = Done()
        if event is None:
            return verdict
        for react in self._reactions[event.action]:
            verdict = await react(event, job)
            if verdict != Done():
                break
        return verdict


@dataclass(frozen=True, slots=True)
class _News:
    """An event, the name it is about, the unit in which the name's lock is held, and what it found
    then."""

    unit: Unit
    name: str
    event: ObjectEvent
    found: Snapshot


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a telling bucket holds, and what was found of the name before it was asked."""

    found: Snapshot
    present: Present | None


class Projection:
    """Reacts to object events. `runs` is the kind whose job a new marker enqueues. With a bucket
    whose own notifications are the events (`telling`), the bucket is asked what it holds; otherwise
    the index knows."""

    def __init__(
        self, units: Units, store: ObjectStore, runs: JobKind[Any], *, telling: bool = False
    ) -> None:
        self._units = units
        self._store = store
        self._runs = runs
        self._telling = telling

    async def on_created(self, event: ObjectEvent, job: Job[DeliverPayload]) -> Verdict:
        for _ in range(_LOOKS):
            asked = await self._ask(event.key) if self._telling else None
            if verdict := await self._project_created(event, job, asked):
                return verdict
        raise StoreUnavailable("The name changes faster than the bucket answers.")

    async def _project_created(
        self, event: ObjectEvent, job: Job[DeliverPayload], asked: _Asked | None
    ) -> Verdict | None:
        """None: others changed the entry since the bucket was asked, and what it said is old."""
        organization, name = split_key(event.key)
        async with self._units.open(organization) as unit:
            found = await repo.look(unit, name)
            if asked and (asked.found.row, asked.found.tombstone) != (found.row, found.tombstone):
                return None
            present = asked.present if asked else found.present
            decision = decide_create(
                found.row,
                found.tombstone,
                CreateFacts.of(event),
                present.now if present else None,
                found.run,
            )
            news = _News(unit, name, event, found)
            unit.tell(received(name, event), *await self._create(news, decision, present))
            await objects.delivered(unit.connection, event.id, unit.now)
            unit.ends(job)
        return Done(already=True)

    async def on_deleted(self, event: ObjectEvent, job: Job[DeliverPayload]) -> Verdict:
        organization, name = split_key(event.key)
        async with self._units.open(organization) as unit:
            found = await repo.look(unit, name)
            stamp = Stamp.of(event)
            # Of a bucket that tells by itself the index knows only what we did to it.
            trusted = not self._telling or delete_is_doubtful(found.row, stamp)
            decision = decide_delete(
                found.row,
                found.tombstone,
                stamp,
                found.present.now if found.present and trusted else None,
                built_in=not self._telling,
            )
            news = _News(unit, name, event, found)
            unit.tell(received(name, event), *await _delete(news, decision))
            await objects.delivered(unit.connection, event.id, unit.now)
            unit.ends(job)
        return Done(already=True)

    async def _create(
        self, news: _News, decision: CreateDecision, present: Present | None
    ) -> list[Line]:
        unit, name = news.unit, news.name
        match decision:
            case Skip(reason, beaten_by):
                if reason in _UNUSABLE:
                    log.info("object event without effect", key=news.event.key, reason=reason)
                return [_dropped(news, reason, beaten_by)]
            case MoveTime(mark, beaten_by, reason):
                await repo.move_time(unit, name, mark)
                return [_dropped(news, reason, beaten_by)]
            case StartRun(mark):
                run = await repo.restart(unit, name, mark.idempotency_key)
                unit.announce(TOPIC, self._runs.name)
                began = started(name, news.event.source, mark.idempotency_key, run)
                return [*lost_run(name, news.found), began]
            case WriteMarker(mark, replaces):
                facts = _facts(present, news.event)
                run, stopped = await repo.mark(unit, name, mark, replaces, facts)
                unit.announce(TOPIC, self._runs.name)
                winner = BeatenBy(news.event.event_time, mark.idempotency_key)
                began = started(name, news.event.source, mark.idempotency_key, run)
                return [*_stopped(name, replaces, stopped, winner), began]
            case _:
                assert_never(decision)

    async def _ask(self, key: str) -> _Asked:
        """With no lock held: a bucket may take its time."""
        organization, name = split_key(key)
        async with self._units.open(organization) as unit:
            found = await repo.look(unit, name)
        try:
            info = await self._store.head(key)
        except NoSuchObject:
            return _Asked(found, None)
        return _Asked(found, Present.of(info.etag, info.content_type, info.size, info.metadata))


async def _delete(news: _News, decision: DeleteDecision) -> list[Line]:
    match decision:
        case Skip(reason, beaten_by):
            return [_dropped(news, reason, beaten_by, told=False)]
        case RemoveRow(mark, tombstone):
            stopped = await repo.remove(news.unit, news.name, tombstone)
            winner = BeatenBy(news.event.event_time, None)
            return [*_stopped(news.name, mark, stopped, winner), _deleted(news, decision)]
        case KeepTombstone(tombstone):
            await repo.remove(news.unit, news.name, tombstone)
            return [_deleted(news, decision)]
        case _:
            assert_never(decision)


def _facts(present: Present | None, event: ObjectEvent) -> dict[str, Any]:
    metadata = (present.metadata if present else None) or event.metadata or {}
    return {
        "image_id": metadata.get("imageId"),
        "mime_type": present.content_type if present else None,
        "width": _whole(metadata.get("width")),
        "height": _whole(metadata.get("height")),
        "size_bytes": present.size if present else event.size,
    }


def _whole(text: str | None) -> int | None:
    return (
        int(text)
        if text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        else None
    )


def received(name: str, event: ObjectEvent) -> Line:
    """What it says of the name; whatever comes of it is told by the lines that follow."""
    data = {
        "name": name,
        "eventTime": iso(event.event_time),
        "reason": event.action,
        "actor": {"type": "event", "name": event.source},
    }
    return Line(f"upload:{name}", "event_received", data)


def started(name: str, source: str, marker: str, run: int) -> Line:
    data = {
        "name": name,
        "idempotencyKey": marker,
        "run": run,
        "actor": {"type": "event", "name": source},
    }
    return Line(f"upload:{name}", "classification_workflow_started", data)


def lost_run(name: str, found: Snapshot) -> list[Line]:
    """A run that ended without a word, for the story of its name."""
    if found.row is None or found.lost_run is None:
        return []
    marker, run = found.row.idempotency_key, found.lost_run
    data = {"name": name, "idempotencyKey": marker, "run": run, "reason": "lost"}
    return [Line(f"upload:{name}", "run_dropped", data)]


def _stopped(name: str, mark: Mark | None, run: int | None, winner: BeatenBy) -> list[Line]:
    """A run that was under way for what is no longer there. If it finds something, nobody asks."""
    if mark is None or run is None:
        return []
    data = {
        "name": name,
        "idempotencyKey": mark.idempotency_key,
        "run": run,
        "reason": "superseded" if winner.idempotency_key else "deleted",
        "beatenBy": _winner(winner),
    }
    return [Line(f"upload:{name}", "run_dropped", data)]


def _dropped(
    news: _News, reason: SkipReason, beaten_by: BeatenBy | None, *, told: bool = True
) -> Line:
    """Clients hear of uploads that came too late; the rest is for those who read the history."""
    data: dict[str, Any] = {
        "name": news.name,
        "eventTime": iso(news.event.event_time),
        "reason": reason,
        "actor": {"type": "event", "name": news.event.source},
    }
    if beaten_by is not None:
        data["beatenBy"] = _winner(beaten_by)
    public = told and reason in _TOLD
    kind = "classification_workflow_skipped" if public else "event_dropped"
    return Line(f"upload:{news.name}", kind, data)


def _winner(beaten_by: BeatenBy) -> dict[str, str | None]:
    when = beaten_by.event_time
    return {
        "eventTime": None if when is None else iso(when),
        "idempotencyKey": beaten_by.idempotency_key,
    }


def _deleted(news: _News, decision: RemoveRow | KeepTombstone) -> Line:
    """Without an entry, one of our own is news if it has ended something that clients may have seen
    ingested or stored; a name that is deleted again is none."""
    event = news.event
    data = {"name": news.name, "eventTime": iso(event.event_time)}
    if "cause" in (event.metadata or {}):
        data["reason"] = "retention"
    unknown = isinstance(decision, KeepTombstone)
    ended = event.source == OURS and "ended" in (event.metadata or {})
    if unknown:
        data["reason"] = "no_entry"
    kind = "event_dropped" if unknown and not ended else "upload_deleted"
    return Line(f"upload:{news.name}", kind, data)
