"""Carries out what order.py decides: one event, one transaction under the name's lock.

Why it is safe to run twice, late or beside itself: the decision is made from rows read after the
lock was taken, and the writes, the history and the end of the delivery job commit together. The run
of a marker is started by the same transaction that writes the marker, so neither can exist without
the other. Starting is strict: what already works for the marker is stopped first, in the queue,
which outranks our own notes, and a clash fails the attempt so that the retry looks again. Deleting
is lenient: a run that could not be stopped in time finds no row to write to.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from safelight.infra.activity import Unit, Units
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.library import repo
from safelight.library.entry import BeatenBy, CreateFacts, Entry, Stamp, StoreNow
from safelight.library.order import (
    CreateDecision,
    DeleteDecision,
    KeepTombstone,
    MoveTime,
    Reason,
    RemoveRow,
    Skip,
    StartRun,
    WriteMarker,
    decide_create,
    decide_delete,
    delete_is_doubtful,
)
from safelight.library.repo import Present
from safelight.library.search import words
from safelight.objects import repo as objects
from safelight.objects.events import OURS, ObjectEvent
from safelight.objects.jobs import DeliverPayload
from safelight.objects.keys import split_key
from safelight.objects.store import NoSuchObject, ObjectStore

_MOST_DIGITS = 9
_ASKED_AT_ONCE = 3
_TOLD = {Reason.STALE, Reason.DUPLICATE, Reason.SUPERSEDED, Reason.SAME_UPLOAD}


class Projection:
    """Reacts to object events. `wake_classifier` is called after a run was enqueued. With a bucket
    whose own notifications are the events (`telling`), the bucket is asked what it holds; otherwise
    the index knows."""

    def __init__(
        self,
        units: Units,
        store: ObjectStore,
        wake_classifier: Callable[[], None],
        *,
        telling: bool = False,
    ) -> None:
        self._units = units
        self._clock = units.clock
        self._store = store
        self._wake_classifier = wake_classifier
        self._telling = telling
        self._asking = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def on_created(self, event: ObjectEvent, job: Job[DeliverPayload]) -> Verdict:
        organization, name = split_key(event.key)
        async with self._room(), self._units.open(organization) as unit:
            connection = unit.connection
            found = await repo.look(connection, organization, name)
            present = await self._ask(event.key) if self._telling else found.present
            decision = decide_create(
                found.entry,
                found.tombstone,
                CreateFacts.of(event),
                present.now if present else None,
                found.run,
            )
            unit.tell(*await self._create(connection, organization, name, event, decision, present))
            await self._delivered(unit, event, job)
        if isinstance(decision, WriteMarker | StartRun):
            self._wake_classifier()
        return Done(already=True)

    async def on_deleted(self, event: ObjectEvent, job: Job[DeliverPayload]) -> Verdict:
        organization, name = split_key(event.key)
        async with self._units.open(organization) as unit:
            connection = unit.connection
            found = await repo.look(connection, organization, name)
            stamp = Stamp.of(event)
            # Of a bucket that tells by itself the index knows only what we did to it.
            trusted = not self._telling or delete_is_doubtful(found.entry, stamp)
            decision = decide_delete(
                found.entry,
                found.tombstone,
                stamp,
                found.present.now if found.present and trusted else None,
                built_in=not self._telling,
            )
            unit.tell(*await self._delete(connection, organization, name, event, decision))
            await self._delivered(unit, event, job)
        return Done(already=True)

    async def _create(
        self,
        connection: Connection,
        organization: str,
        name: str,
        event: ObjectEvent,
        decision: CreateDecision,
        present: Present | None,
    ) -> list[Line]:
        now = self._clock.now_ms()
        if isinstance(decision, Skip):
            return [_dropped(name, event, decision.reason, decision.beaten_by)]
        if isinstance(decision, MoveTime):
            await reach("library.move_time")
            await repo.move_time(connection, organization, name, decision.entry)
            return [_dropped(name, event, decision.reason, decision.beaten_by)]
        if isinstance(decision, StartRun):
            marker = decision.entry.idempotency_key
            await reach("library.restart")
            run = await repo.restart(connection, organization, name, marker, now)
            return [_started(name, event, decision.entry, run)]
        facts = _facts(present, event)
        replaces = decision.replaces.idempotency_key if decision.replaces else None
        await reach("library.mark")
        run, stopped = await repo.mark(
            connection, organization, name, decision.entry, replaces, facts, words(name), now
        )
        winner = BeatenBy(event.event_time, decision.entry.idempotency_key)
        return [
            *_stopped(name, decision.replaces, stopped, winner),
            _started(name, event, decision.entry, run),
        ]

    async def _delete(
        self,
        connection: Connection,
        organization: str,
        name: str,
        event: ObjectEvent,
        decision: DeleteDecision,
    ) -> list[Line]:
        if isinstance(decision, Skip):
            return [_dropped(name, event, decision.reason, decision.beaten_by, told=False)]
        stamp, now = decision.tombstone.stamp, self._clock.now_ms()
        await reach("library.remove")
        stopped = await repo.remove(connection, organization, name, stamp, now)
        gone = decision.entry if isinstance(decision, RemoveRow) else None
        winner = BeatenBy(event.event_time, None)
        return [*_stopped(name, gone, stopped, winner), _deleted(name, event, decision)]

    def _room(self) -> AbstractAsyncContextManager[Any]:
        """The lock is held while a bucket is asked, so only a few may ask: connections are few."""
        return self._asking if self._telling else nullcontext()

    async def _ask(self, key: str) -> Present | None:
        try:
            info = await self._store.head(key)
        except NoSuchObject:
            return None
        now = StoreNow(info.etag, info.metadata.get("idempotencyKey"))
        return Present(now, info.content_type, info.size, dict(info.metadata))

    async def _delivered(self, unit: Unit, event: ObjectEvent, job: Job[DeliverPayload]) -> None:
        await objects.delivered(unit.connection, event.id, unit.now)
        unit.ends(job)


def _facts(present: Present | None, event: ObjectEvent) -> dict[str, Any]:
    metadata = (present.metadata if present else None) or dict(event.metadata or {})
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


def _started(name: str, event: ObjectEvent, entry: Entry, run: int) -> Line:
    return Line(
        f"upload:{name}",
        "classification_workflow_started",
        {
            "name": name,
            "idempotencyKey": entry.idempotency_key,
            "run": run,
            "actor": {"type": "event", "name": event.source},
        },
    )


def _stopped(name: str, entry: Entry | None, run: int | None, winner: BeatenBy) -> list[Line]:
    """A run that was under way for what is no longer there. If it finds something, nobody asks."""
    if entry is None or run is None:
        return []
    data = {
        "name": name,
        "idempotencyKey": entry.idempotency_key,
        "run": run,
        "reason": "superseded" if winner.idempotency_key else "deleted",
        "beatenBy": _winner(winner),
    }
    return [Line(f"upload:{name}", "run_dropped", data)]


def _dropped(
    name: str,
    event: ObjectEvent,
    reason: Reason,
    beaten_by: BeatenBy | None,
    *,
    told: bool = True,
) -> Line:
    """Clients hear of uploads that came too late; the rest is for those who read the history."""
    data: dict[str, Any] = {
        "name": name,
        "eventTime": iso(event.event_time),
        "reason": reason,
        "actor": {"type": "event", "name": event.source},
    }
    if beaten_by is not None:
        data["beatenBy"] = _winner(beaten_by)
    public = told and reason in _TOLD
    kind = "classification_workflow_skipped" if public else "event_dropped"
    return Line(f"upload:{name}", kind, data)


def _winner(beaten_by: BeatenBy) -> dict[str, str | None]:
    when = beaten_by.event_time
    return {
        "eventTime": None if when is None else iso(when),
        "idempotencyKey": beaten_by.idempotency_key,
    }


def _deleted(name: str, event: ObjectEvent, decision: RemoveRow | KeepTombstone) -> Line:
    """One of our own that had no entry yet is news as well: clients may have seen it stored."""
    data = {"name": name, "eventTime": iso(event.event_time)}
    unknown = isinstance(decision, KeepTombstone)
    if unknown:
        data["reason"] = "no_entry"
    kind = "event_dropped" if unknown and event.source != OURS else "upload_deleted"
    return Line(f"upload:{name}", kind, data)
