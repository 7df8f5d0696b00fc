"""Carries out what mend.py decides, in the unit that holds the name's lock."""

from collections.abc import Mapping
from typing import Any, assert_never

from safelight.infra.activity import Unit
from safelight.infra.history import SYSTEM, Line
from safelight.infra.queue.jobs import TOPIC, JobKind
from safelight.infra.queue.queue import Queue
from safelight.library import repo as library
from safelight.library.order import Mark, Snapshot
from safelight.library.project import lost_run
from safelight.library.reconcile import repo
from safelight.library.reconcile.mend import (
    FollowBucket,
    Mend,
    Name,
    RestartRun,
    SayFailed,
    TellCreated,
    TellDeleted,
)
from safelight.objects import repo as objects
from safelight.objects.events import Action
from safelight.objects.jobs import DELIVER
from safelight.objects.notifications import repo as events
from safelight.objects.store import Cleared, Facts, Landed, ObjectInfo, Place


class Repair:
    def __init__(self, queue: Queue, runs: JobKind[Any]) -> None:
        self._queue = queue
        self._runs = runs

    async def carry_out(
        self, unit: Unit, one: Name, found: Snapshot, mend: Mend, info: ObjectInfo | None, time: int
    ) -> None:
        """`info` is what the store holds, as events of now tell of it, and `time` when that was
        put."""
        line = {"name": one.name, "reason": mend.found, "actor": SYSTEM}
        unit.tell(Line(f"upload:{one.name}", "upload_reconciled", line))
        match mend:
            case TellCreated():
                await self._tell(unit, one, Action.CREATED, time, info)
            case TellDeleted(mark):
                # Right after what the entry stands for: whatever is newer outranks it.
                await self._tell(unit, one, Action.DELETED, mark.stamp.event_time + 1, None)
            case FollowBucket(held):
                await self._follow(unit, one, held)
            case RestartRun(mark):
                unit.tell(*lost_run(one.name, found))
                run = await library.restart(unit, one.name, mark.idempotency_key)
                unit.announce(TOPIC, self._runs.name)
                data = {**_facts(one, mark, run), "actor": SYSTEM}
                unit.tell(Line(f"upload:{one.name}", "classification_workflow_started", data))
            case SayFailed(mark, error):
                run = found.run_number or 0
                await repo.say_failed(unit, one.name, mark, run, error)
                if error is not None:
                    data = {**_facts(one, mark, run), "error": dict(error), "final": True}
                    unit.tell(Line(f"upload:{one.name}", "classification_error", data))
            case _:
                assert_never(mend)

    async def letter(self, unit: Unit, one: Name, found: Snapshot) -> Mapping[str, Any] | None:
        """The error of the dead letter of the entry's very run."""
        if found.row is None or found.status is None or not found.status.under_way:
            return None
        run = _facts(one, found.row, found.run_number or 0)
        letters = await self._queue.dead_letters.about(unit, self._runs, run)
        return letters[0].error if letters else None

    async def _tell(
        self, unit: Unit, one: Name, action: Action, time: int, info: ObjectInfo | None
    ) -> None:
        await events.tell_again(unit.connection, action, one.key, time, info, unit.now)
        await self._told(unit, one, action)

    async def _follow(self, unit: Unit, one: Name, held: ObjectInfo | None) -> None:
        """Index and event say what the bucket holds, as if we had done it now."""
        if held is None:
            await objects.delete(unit.connection, one.key, Cleared(Place.BUCKET), unit.now)
            await self._told(unit, one, Action.DELETED)
            return
        landed = Landed(Place.BUCKET, held.etag, held.size, sha256="")
        facts = Facts(held.content_type, held.metadata)
        await objects.put(unit.connection, one.key, landed, facts, unit.now)
        await repo.charge(unit, held.size)
        await self._told(unit, one, Action.CREATED)

    async def _told(self, unit: Unit, one: Name, action: Action) -> None:
        """A dead letter of an event that says the same is needless from now on."""
        unit.announce(TOPIC, DELIVER.name)
        letters = self._queue.dead_letters
        for letter in await letters.about(unit, DELIVER, {"name": one.name}):
            event = await objects.event(unit.connection, letter.payload["eventId"])
            if event is None or event.action is action:
                await letters.discard_in(unit, letter, "What it was to tell is told again.")


def _facts(one: Name, mark: Mark, run: int) -> dict[str, Any]:
    return {"name": one.name, "idempotencyKey": mark.idempotency_key, "run": run}
