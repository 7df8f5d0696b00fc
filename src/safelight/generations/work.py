"""A task's job: submit it, or ask about it, or store what came of it, whichever is next.

What is next is in the task's row, so a job that was killed anywhere goes on where the row stands. A
call whose answer was lost is asked about first, where the provider can be asked; only a task the
provider does not know is submitted again. While a video is made, nothing runs here.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from prometheus_client import Counter

from safelight.generations import repo
from safelight.generations.change import (
    GenerationChange,
    JobEnds,
    JobFate,
    JobGoesOn,
    JobLost,
    JobReturns,
)
from safelight.generations.decide import (
    TaskStep,
    answered,
    begun,
    gave_up,
    next_step,
    not_stored,
)
from safelight.generations.fetch import FetchFailed, FetchRefused, FetchTrouble, TooLarge
from safelight.generations.jobs import TaskPayload
from safelight.generations.keep import Keeper, Keeping, Unwanted
from safelight.generations.lifecycle import Generation, Task, TaskErrorCode, TaskStatus
from safelight.generations.orders import Orders
from safelight.generations.owner import OVER, Decide, Owner
from safelight.generations.pace import Pace
from safelight.generations.providers.base import (
    Provider,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    TaskUnknown,
)
from safelight.generations.providers.registry import Providers
from safelight.infra.activity import Unit
from safelight.infra.bus import Bus
from safelight.infra.failpoints import reach
from safelight.infra.injected import Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Failure, Job, Verdict

_BUSY_SECONDS = 2.0
_LEAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TakenTask:
    """A task this job has taken up, as it stands."""

    generation: Generation
    task: Task
    provider: Provider

    @property
    def delivered(self) -> bool:
        return self.task.status is TaskStatus.STREAMING


class Work:
    def __init__(
        self,
        owner: Owner,
        providers: Providers,
        paces: Mapping[str, Pace],
        orders: Orders,
        keeper: Keeper,
        ids: Ids,
        bus: Bus,
        metrics: Metrics,
        *,
        fetch_seconds: float,
    ) -> None:
        self._owner = owner
        self._providers = providers
        self._paces = paces
        self._orders = orders
        self._keeper = keeper
        self._ids = ids
        self._fetch_seconds = fetch_seconds
        self._running: dict[str, set[asyncio.Task[Any]]] = {}
        self._deaf: set[asyncio.Task[Any] | None] = set()
        bus.subscribe(OVER, self._stop)
        self._outcomes = Counter(
            "safelight_generation_tasks_total",
            "Provider answers and stored results, by provider and outcome.",
            ("provider", "outcome"),
            registry=metrics.registry,
        )

    async def handle(self, job: Job[TaskPayload]) -> Verdict:
        """Stops when its generation ends by other hands: nobody waits for the result."""
        inner = asyncio.create_task(self._handle(job))
        beside = self._running.setdefault(job.payload.generationId, set())
        beside.add(inner)
        try:
            return await inner
        except asyncio.CancelledError:
            mine = asyncio.current_task()
            if mine is not None and mine.cancelling():
                raise
            return Done()
        finally:
            beside.discard(inner)
            if not beside:
                self._running.pop(job.payload.generationId, None)

    def _stop(self, generation_id: str) -> None:
        """Not the one that has just ended it."""
        spared = self._deaf | {asyncio.current_task()}
        for running in self._running.get(generation_id, set()) - spared:
            running.cancel()

    async def _handle(self, job: Job[TaskPayload]) -> Verdict:
        seen = await repo.find(self._owner.db, job.payload.generationId)
        if seen is None or next_step(seen, job.payload.artifactId) is TaskStep.OVER:
            return Done()  # also where its provider is gone
        provider = self._providers.find(seen.provider)
        if provider is None:
            return await self._without_provider(job, seen.provider)
        step = next_step(seen, job.payload.artifactId, can_be_asked=provider.can_be_asked)
        match step:
            case TaskStep.SUBMIT:
                return await self._submit(job, provider)
            case TaskStep.ASK | TaskStep.STORE:
                taken = await self._take(job, provider, step)
                return await self._ask(job, taken) if taken else Done(already=True)
            case TaskStep.OVER:
                return Done()
            case _:
                assert_never(step)

    async def _take(
        self, job: Job[TaskPayload], provider: Provider, step: TaskStep
    ) -> TakenTask | None:
        """None: the task is over, and the job has been ended."""
        fresh = None if provider.chooses_ids else self._ids.uuid4()
        artifact_id = job.payload.artifactId

        def take(generation: Generation, _: int) -> GenerationChange:
            return begun(generation, artifact_id, step, fresh)

        change = await self._change(job, take)
        task = change.after.task(artifact_id) if change else None
        if change is None or task is None or not _goes_on(change.then):
            return None
        return TakenTask(change.after, task, provider)

    async def _submit(self, job: Job[TaskPayload], provider: Provider) -> Verdict:
        outcome: ProviderAnswer | None = None
        pace = self._paces[provider.name]
        async with pace.turn(job.organization) as pause:
            if pause:
                return await self._put_off(job, pause)
            taken = await self._take(job, provider, TaskStep.SUBMIT)
            if taken is None:
                return Done(already=True)
            if not taken.delivered:
                outcome = await self._call(taken)
                if isinstance(outcome, ProviderTrouble) and outcome.busy:
                    seconds = outcome.retry_after or _BUSY_SECONDS
                    pace.slow_down(seconds, job.organization)
                    outcome = replace(outcome, retry_after=seconds)
        if outcome is None:
            return await self._store(job, taken)
        return await self._answered(job, taken, outcome)

    async def _put_off(self, job: Job[TaskPayload], seconds: float) -> Verdict:
        """Nothing has happened to its task, and nobody's turn is taken up."""
        async with self._owner.units.open(job.organization) as unit:
            await unit.put_off(job, seconds)
        return Done(already=True)

    async def _call(self, taken: TakenTask) -> ProviderAnswer:
        """Heard to its end where the vendor can be told to stop what it has begun."""
        order, mine = self._orders.order(taken.generation, taken.task), asyncio.current_task()
        if taken.provider.cancels:
            self._deaf.add(mine)
        try:
            await reach("generations.submit")
            return await taken.provider.submit(order)
        finally:
            self._deaf.discard(mine)

    async def _ask(self, job: Job[TaskPayload], taken: TakenTask) -> Verdict:
        if taken.delivered:
            return await self._store(job, taken)
        order = self._orders.order(taken.generation, taken.task)
        await reach("generations.ask")
        outcome = await taken.provider.poll(order)
        if isinstance(outcome, TaskUnknown):
            return await self._submit(job, taken.provider)
        return await self._answered(job, taken, _as_to_the_task(outcome))

    async def _answered(
        self, job: Job[TaskPayload], taken: TakenTask, outcome: ProviderAnswer
    ) -> Verdict:
        self._count(taken, outcome.label)
        attempt, artifact_id = taken.task.attempt, taken.task.artifact_id

        def learn(generation: Generation, now: int) -> GenerationChange:
            return answered(generation, artifact_id, attempt, outcome, now)

        change = await self._change(job, learn)
        task = change.after.task(artifact_id) if change else None
        if change is None or task is None or not _goes_on(change.then):
            return Done(already=change is not None)
        return await self._store(job, TakenTask(change.after, task, taken.provider))

    async def _store(self, job: Job[TaskPayload], taken: TakenTask) -> Verdict:
        generation, task = taken.generation, taken.task
        assert task.media is not None  # noqa: S101 - a delivered task has its media
        order = self._orders.order(generation, task)
        keeping = Keeping(generation, task, task.media, order, taken.provider, job)
        seconds = min(self._fetch_seconds, max(order.seconds, _LEAST_SECONDS))
        try:
            await self._keeper.keep(keeping, seconds)
        except Unwanted:
            return Done()
        except FetchTrouble as error:
            return await self._not_stored(job, taken, ProviderTrouble(str(error)))
        except (FetchRefused, FetchFailed, TooLarge) as error:
            return await self._not_stored(job, taken, Refused.because(str(error), code_of(error)))
        self._count(taken, "stored")
        return Done(already=True)

    async def _not_stored(
        self, job: Job[TaskPayload], taken: TakenTask, why: Refused | ProviderTrouble
    ) -> Verdict:
        self._count(taken, "not_stored")
        attempt, artifact_id = taken.task.attempt, taken.task.artifact_id

        def learn(generation: Generation, now: int) -> GenerationChange:
            return not_stored(generation, artifact_id, attempt, why, now)

        return Done(already=await self._change(job, learn) is not None)

    async def _without_provider(self, job: Job[TaskPayload], name: str) -> Verdict:
        message = f"{name} has no key on this server any more."

        def fail(generation: Generation, now: int) -> GenerationChange:
            return replace(
                gave_up(generation, job.payload.artifactId, message, now), then=JobEnds()
            )

        return Done(already=await self._change(job, fail) is not None)

    async def on_dead(self, unit: Unit, job: Job[TaskPayload], failure: Failure) -> None:
        def fail(generation: Generation, now: int) -> GenerationChange:
            return gave_up(generation, job.payload.artifactId, failure.message, now)

        await self._owner.change_in(unit, job.payload.generationId, fail)

    async def _change(self, job: Job[TaskPayload], decide: Decide) -> GenerationChange | None:
        return await self._owner.change(job.organization, job.payload.generationId, decide, job)

    def _count(self, taken: TakenTask, outcome: str) -> None:
        self._outcomes.labels(taken.provider.name, outcome).inc()


def _as_to_the_task(outcome: ProviderAnswer) -> ProviderAnswer:
    """A question that was not answered says nothing of its task: the provider may have it still."""
    if isinstance(outcome, ProviderTrouble) and not outcome.ended:
        return replace(outcome, sent=True)
    return outcome


def _goes_on(then: JobFate) -> bool:
    match then:
        case JobGoesOn():
            return True
        case JobEnds() | JobReturns() | JobLost():
            return False
        case _:
            assert_never(then)


def code_of(error: Exception) -> TaskErrorCode:
    if isinstance(error, TooLarge):
        return TaskErrorCode.TOO_LARGE
    return (
        TaskErrorCode.FETCH_REFUSED
        if isinstance(error, FetchRefused)
        else TaskErrorCode.PROVIDER_ERROR
    )
