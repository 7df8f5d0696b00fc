"""Classifying a library anew: asked for by a person, done below everything that is new.

One job per reclassification begins a few runs at a time, looks what has become of them, and comes
back; so the queue never holds more than a few, and whoever dies in between leaves nothing half
done. Each is an ordinary run with the entry's own marker: its label stays until the next one is
there, and a result applies only where the entry is still the same. What was deleted or replaced
meanwhile is skipped. Of a result that changes nothing nobody is told.
"""

from typing import Any

from safelight.classification.jobs import RECLASSIFY, RUN, ReclassifyPayload
from safelight.classification.reclassify import repo
from safelight.classification.reclassify.lifecycle import (
    MACHINE,
    Begun,
    Counted,
    Reclassification,
    ReclassificationStatus,
    ReclassifyFilter,
)
from safelight.errors import Conflict, NotFound
from safelight.infra.activity import Unit, Units
from safelight.infra.history import Line
from safelight.infra.injected import Ids
from safelight.infra.queue.jobs import TOPIC, Done, Job, Verdict

AT_ONCE = 200
_SOON, _LATER = 1.0, 5.0  # seconds, after something happened and after nothing did


class AlreadyReclassifying(Conflict):
    """This organization's images are being classified anew already. Wait for the end, or cancel
    it."""


class Reclassify:
    def __init__(self, units: Units, ids: Ids) -> None:
        self._units = units
        self._ids = ids

    async def count(self, organization: str, wanted: ReclassifyFilter) -> int:
        return await repo.count(self._units.db, organization, wanted)

    async def ask(
        self, organization: str, wanted: ReclassifyFilter, actor: dict[str, Any]
    ) -> Reclassification:
        if known := await repo.running(self._units.db, organization):
            raise _already(known)
        total, new_id = await self.count(organization, wanted), self._ids.short("rec")
        async with self._units.open(organization) as unit:
            if not await repo.add(unit, new_id, actor, wanted, total):
                raise AlreadyReclassifying
            unit.tell(_line(new_id, "reclassification_asked", actor, wanted, total))
            await unit.enqueue(RECLASSIFY, ReclassifyPayload(new_id), key=new_id)
        return await self.find(organization, new_id)

    async def find(self, organization: str | None, wanted_id: str) -> Reclassification:
        found = await repo.find(self._units.db, organization, wanted_id)
        if found is None:
            raise NotFound("There is no such reclassification.")
        return found

    async def cancel(
        self, organization: str, wanted_id: str, actor: dict[str, Any]
    ) -> Reclassification:
        """Nothing more begins; what has begun ends. Again, or when it is over, it is fine too."""
        async with self._units.open(organization) as unit:
            found = await repo.lock(unit, wanted_id)
            if found is None:
                raise NotFound("There is no such reclassification.")
            if not found.status.over:
                MACHINE.check(found.status, ReclassificationStatus.CANCELLED)
                await repo.end(unit, wanted_id, ReclassificationStatus.CANCELLED)
                unit.tell(Line(_subject(wanted_id), "reclassification_cancelled", {"actor": actor}))
        return await self.find(organization, wanted_id)

    # The job

    async def handle(self, job: Job[ReclassifyPayload]) -> Verdict:
        async with self._units.open(job.organization) as unit:
            await unit.hold(job)
            found = await repo.lock(unit, job.payload.id)
            if found is None:
                unit.ends(job)
                return Done(already=True)
            counted = await repo.count_ended(unit, found.id)
            begun = Begun((), 0, over=True)
            if not found.status.over and counted.under_way < AT_ONCE:
                begun = await repo.go_on(unit, found.id, AT_ONCE - counted.under_way)
                _tell(unit, found, begun)
            await _note(unit, found, counted, begun)
            if begun.over and not counted.under_way:
                if not found.status.over:
                    MACHINE.check(found.status, ReclassificationStatus.DONE)
                    await repo.end(unit, found.id, ReclassificationStatus.DONE)
                    unit.tell(Line(_subject(found.id), "reclassification_done"))
                unit.ends(job)
            else:
                happened = begun.runs or counted.done or counted.failed or counted.skipped
                await unit.put_off(job, _SOON if happened else _LATER)
        return Done(already=True)


async def _note(unit: Unit, found: Reclassification, counted: Counted, begun: Begun) -> None:
    skipped = counted.skipped + begun.left_out
    if counted.done or counted.failed or skipped:
        ended = Counted(counted.done, counted.failed, skipped, counted.under_way)
        await repo.progress(unit, found.id, ended)


def _tell(unit: Unit, found: Reclassification, begun: Begun) -> None:
    """Each entry's story says who asked."""
    for name, marker, run in begun.runs:
        facts = {"name": name, "idempotencyKey": marker, "run": run, "actor": found.asked_by}
        unit.tell(Line(f"upload:{name}", "classification_asked", facts, also=_subject(found.id)))
    if begun.runs:
        unit.announce(TOPIC, RUN.name)


def _line(
    new_id: str, kind: str, actor: dict[str, Any], wanted: ReclassifyFilter, total: int
) -> Line:
    facts = {"actor": actor, "label": wanted.label, "notBy": wanted.not_by, "total": total}
    return Line(_subject(new_id), kind, facts)


def _subject(wanted_id: str) -> str:
    return f"reclassification:{wanted_id}"


def _already(known: str) -> AlreadyReclassifying:
    return AlreadyReclassifying(f"{AlreadyReclassifying.default_message()} It is {known}.")
