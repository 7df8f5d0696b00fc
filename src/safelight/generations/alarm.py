"""The timer of a generation, and telling providers that nobody waits any more.

The timer is a job with a later time: waiting costs a row, and it comes after a restart too. Before
a task is given up, its provider is asked once, where it can be.
"""

import asyncio
from collections.abc import Mapping

import structlog

from safelight.generations import repo
from safelight.generations.change import GenerationChange
from safelight.generations.decide import fired
from safelight.generations.jobs import AlarmPayload, TaskPayload
from safelight.generations.lifecycle import Generation, MediaKind, Task, TaskStatus
from safelight.generations.orders import Orders
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Provider, ProviderAnswer, ProviderTrouble
from safelight.generations.providers.registry import Providers
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict

_ASKING_SECONDS = 5.0


class Alarm:
    def __init__(
        self,
        owner: Owner,
        providers: Providers,
        orders: Orders,
        timeouts: Mapping[MediaKind, float],
        fetch_seconds: float,
    ) -> None:
        self._owner = owner
        self._providers = providers
        self._orders = orders
        self._timeouts = timeouts
        self._fetch_seconds = fetch_seconds

    async def handle(self, job: Job[AlarmPayload]) -> Verdict:
        seen = await repo.find(self._owner.db, job.payload.generationId)
        if seen is None or seen.status.over:
            return Done()
        answers = await self._ask(seen) if seen.closes_at is None else {}
        grace = min(self._fetch_seconds, self._timeouts[seen.kind])

        def fire(generation: Generation, now: int) -> GenerationChange:
            return fired(generation, answers, now, int(grace * 1000))

        change = await self._owner.change(seen.organization, seen.id, fire, job)
        return Done(already=change is not None)

    async def _ask(self, generation: Generation) -> dict[str, ProviderAnswer]:
        provider = self._providers.find(generation.provider)
        if provider is None or not provider.can_be_asked:
            return {}
        waiting = [task for task in generation.tasks if _can_be_asked(task)]
        asked = (self._one(provider, generation, task) for task in waiting)
        answers = await asyncio.gather(*asked)
        return {task.artifact_id: answer for task, answer in zip(waiting, answers, strict=True)}

    async def _one(self, provider: Provider, generation: Generation, task: Task) -> ProviderAnswer:
        try:
            async with asyncio.timeout(_ASKING_SECONDS):
                await reach("generations.ask_last")
                return await provider.poll(self._orders.order(generation, task))
        except TimeoutError:
            return ProviderTrouble("The provider did not answer.")


class Stop:
    """Tells a provider that a task it works on was given up."""

    def __init__(self, owner: Owner, providers: Providers, orders: Orders) -> None:
        self._owner = owner
        self._providers = providers
        self._orders = orders

    async def handle(self, job: Job[TaskPayload]) -> Verdict:
        generation = await repo.find(self._owner.db, job.payload.generationId)
        task = generation.task(job.payload.artifactId) if generation else None
        provider = self._providers.find(generation.provider) if generation else None
        if generation is None or task is None or provider is None or not provider.cancels:
            return Done()
        await reach("generations.cancel_at_provider")
        if await provider.cancel(self._orders.order(generation, task)):
            return Done()
        if job.last_attempt:
            structlog.get_logger().warning("generations.not_cancelled", task=task.artifact_id)
            return Done()
        return Retry(Failure("NOT_CANCELLED", "The provider did not take the cancellation."))


def _can_be_asked(task: Task) -> bool:
    return task.status is TaskStatus.SUBMITTED and task.provider_task_id is not None
