"""The owner of generations in flight: whatever happens to one passes through here.

Guarantees
- Each change is one unit of work that locks the generation's row first, decides with decide.py, and
  writes tasks, library row, history, follow-up jobs and the end of the job that asked, all or
  nothing. No lock is held while anybody outside is waited for.
- Events for one generation happen one after another, whatever processes they reach.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from safelight.generations import repo
from safelight.generations.change import (
    GenerationChange,
    JobEnds,
    JobFate,
    JobGoesOn,
    JobLost,
    JobReturns,
)
from safelight.generations.decide import called_off
from safelight.generations.jobs import ALARM, STOP, TaskPayload, work
from safelight.generations.lifecycle import Generation
from safelight.infra.activity import Unit, Units
from safelight.infra.queue.jobs import Job, LeaseLost

OVER = "generations"  # of the bus; the detail is the id of a generation that has ended

Decide = Callable[[Generation, int], GenerationChange]


class Owner:
    def __init__(self, units: Units) -> None:
        self.units = units
        self.db = units.db

    async def change(
        self, organization: str, generation_id: str, decide: Decide, job: Job[Any] | None = None
    ) -> GenerationChange | None:
        """None: there is no such generation in flight. A job that ends is ended here too."""
        async with self.units.open(organization) as unit:
            return await self.change_in(unit, generation_id, decide, job)

    async def change_in(
        self, unit: Unit, generation_id: str, decide: Decide, job: Job[Any] | None = None
    ) -> GenerationChange | None:
        """The same as a part of more."""
        before = await repo.lock(unit.connection, generation_id)
        if before is None:
            return None
        change = decide(before, unit.now)
        await repo.save(unit.connection, before, change.after)
        await _follow_up(unit, change)
        if change.after.status.over and not before.status.over:
            await repo.publish(unit.connection, change.after)
            await unit.cancel(ALARM, change.after.id)
            unit.announce(OVER, change.after.id)
        if job is not None:
            await _carry_out(unit, job, change.then)
        unit.tell(*change.lines)
        return change

    async def cancel(self, organization: str, generation_id: str, actor: Mapping[str, str]) -> bool:
        """What is not finished fails as cancelled, what is finished stays. False: it was over."""

        def call_off(generation: Generation, now: int) -> GenerationChange:
            return called_off(generation, actor, now)

        change = await self.change(organization, generation_id, call_off)
        return change is not None and bool(change.lines)


async def _follow_up(unit: Unit, change: GenerationChange) -> None:
    generation = change.after
    for artifact_id in change.work:
        payload = TaskPayload(generation.id, artifact_id)
        await unit.run_now(work(generation.provider), payload, key=artifact_id)
    for artifact_id in change.abandoned:
        await unit.enqueue(STOP, TaskPayload(generation.id, artifact_id), key=artifact_id)


async def _carry_out(unit: Unit, job: Job[Any], then: JobFate) -> None:
    match then:
        case JobGoesOn():
            pass
        case JobEnds():
            unit.ends(job)
        case JobReturns():
            await unit.put_off(job, then.seconds)
        case JobLost():
            raise LeaseLost
        case _:
            assert_never(then)
