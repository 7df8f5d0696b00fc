"""A task's job: submit it, or ask about it, or store what came of it, whichever is next.

What is next is in the task's row, so a job that was killed anywhere goes on where the row stands. A
call whose answer was lost is asked about first, where the provider can be asked; only a task the
provider does not know is submitted again. While a video is made, nothing runs here.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import Counter

from safelight.generations import repo
from safelight.generations.decide import (
    Change,
    End,
    GoOn,
    Step,
    answered,
    begun,
    gave_up,
    next_step,
    not_stored,
)
from safelight.generations.fetch import FetchFailed, FetchRefused, FetchTrouble, TooLarge
from safelight.generations.keep import Keeper, Keeping, Unwanted
from safelight.generations.kinds import Working
from safelight.generations.lifecycle import Code, Generation, Task, TaskStatus
from safelight.generations.orders import Orders
from safelight.generations.owner import OVER, Owner
from safelight.generations.providers.base import (
    Outcome,
    Provider,
    Refused,
    Trouble,
    Unknown,
)
from safelight.generations.providers.pace import Pace
from safelight.generations.providers.registry import Providers
from safelight.infra.activity import Unit
from safelight.infra.failpoints import reach
from safelight.infra.injected import Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Failure, Job, Verdict

_BUSY_SECONDS = 2.0
_LEAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Taken:
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
        owner.queue.bus.subscribe(OVER, self._stop)
        self._outcomes = Counter(
            "safelight_generation_tasks_total",
            "Provider answers and stored results, by provider and outcome.",
            ("provider", "outcome"),
            registry=metrics.registry,
        )

    async def handle(self, job: Job[Working]) -> Verdict:
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

    async def _handle(self, job: Job[Working]) -> Verdict:
        seen = await repo.find(self._owner.db, job.payload.generationId)
        if seen is None or next_step(seen, job.payload.artifactId) is Step.OVER:
            return Done()
        provider = self._providers.find(seen.provider)
        if provider is None:
            return await self._without_provider(job, seen.provider)
        step = next_step(seen, job.payload.artifactId, can_be_asked=provider.can_be_asked)
        if step is Step.SUBMIT:
            return await self._submit(job, provider)
        taken = await self._take(job, provider, step)
        return await self._ask(job, taken) if taken else Done(already=True)

    async def _take(self, job: Job[Working], provider: Provider, step: Step) -> Taken | None:
        """None: the task is over, and the job has been ended."""
        fresh = None if provider.chooses_ids else self._ids.uuid4()
        artifact_id = job.payload.artifactId

        def take(generation: Generation, _: int) -> Change:
            return begun(generation, artifact_id, step, fresh)

        change = await self._owner.change(job.payload.generationId, take, job)
        task = change.after.task(artifact_id) if change else None
        if change is None or task is None or isinstance(change.then, End):
            return None
        return Taken(change.after, task, provider)

    async def _submit(self, job: Job[Working], provider: Provider) -> Verdict:
        outcome: Outcome | None = None
        pace = self._paces[provider.name]
        async with pace.turn():
            taken = await self._take(job, provider, Step.SUBMIT)
            if taken is None:
                return Done(already=True)
            if not taken.delivered:
                outcome = await self._call(taken)
                if isinstance(outcome, Trouble) and outcome.busy:
                    pace.slow_down(outcome.retry_after or _BUSY_SECONDS)
        if outcome is None:
            return await self._store(job, taken)
        return await self._answered(job, taken, outcome)

    async def _call(self, taken: Taken) -> Outcome:
        """Heard to its end where the vendor can be told to stop what it has begun."""
        order, mine = self._orders.order(taken.generation, taken.task), asyncio.current_task()
        if taken.provider.cancels:
            self._deaf.add(mine)
        try:
            await reach("generations.submit")
            return await taken.provider.submit(order)
        finally:
            self._deaf.discard(mine)

    async def _ask(self, job: Job[Working], taken: Taken) -> Verdict:
        if taken.delivered:
            return await self._store(job, taken)
        order = self._orders.order(taken.generation, taken.task)
        await reach("generations.ask")
        outcome = await taken.provider.poll(order)
        if isinstance(outcome, Unknown):
            return await self._submit(job, taken.provider)
        return await self._answered(job, taken, outcome)

    async def _answered(self, job: Job[Working], taken: Taken, outcome: Outcome) -> Verdict:
        self._count(taken, type(outcome).__name__.lower())
        attempt, artifact_id = taken.task.attempt, taken.task.artifact_id

        def settle(generation: Generation, now: int) -> Change:
            return answered(generation, artifact_id, attempt, outcome, now)

        await reach("generations.answered")
        change = await self._owner.change(taken.generation.id, settle, job)
        task = change.after.task(artifact_id) if change else None
        if change is None or task is None or not isinstance(change.then, GoOn):
            return Done(already=change is not None)
        return await self._store(job, Taken(change.after, task, taken.provider))

    async def _store(self, job: Job[Working], taken: Taken) -> Verdict:
        generation, task = taken.generation, taken.task
        assert task.media is not None  # noqa: S101 - a delivered task has its media
        order = self._orders.order(generation, task)
        keeping = Keeping(generation, task, task.media, order, taken.provider, job)
        seconds = min(self._fetch_seconds, max(order.seconds, _LEAST_SECONDS))
        try:
            change = await self._keeper.keep(keeping, seconds)
        except Unwanted:
            return Done()
        except FetchTrouble as error:
            return await self._not_stored(job, taken, Trouble(str(error)))
        except (FetchRefused, FetchFailed, TooLarge) as error:
            return await self._not_stored(job, taken, Refused.because(str(error), code_of(error)))
        self._count(taken, "stored")
        self._owner.tell(change, job)
        return Done(already=True)

    async def _not_stored(self, job: Job[Working], taken: Taken, outcome: Outcome) -> Verdict:
        self._count(taken, "not_stored")
        attempt, artifact_id = taken.task.attempt, taken.task.artifact_id

        def settle(generation: Generation, now: int) -> Change:
            return not_stored(generation, artifact_id, attempt, outcome, now)

        await reach("generations.not_stored")
        change = await self._owner.change(taken.generation.id, settle, job)
        return Done(already=change is not None)

    async def _without_provider(self, job: Job[Working], name: str) -> Verdict:
        message = f"{name} has no key on this server any more."

        def fail(generation: Generation, now: int) -> Change:
            return replace(gave_up(generation, job.payload.artifactId, message, now), then=End())

        await reach("generations.without_provider")
        change = await self._owner.change(job.payload.generationId, fail, job)
        return Done(already=change is not None)

    async def on_dead(self, unit: Unit, job: Job[Working], failure: Failure) -> None:
        def fail(generation: Generation, now: int) -> Change:
            return gave_up(generation, job.payload.artifactId, failure.message, now)

        await reach("generations.give_up")
        change = await self._owner.change_on(unit.connection, job.payload.generationId, fail)
        unit.tell(*(change.entries if change else ()))

    def _count(self, taken: Taken, outcome: str) -> None:
        self._outcomes.labels(taken.provider.name, outcome).inc()


def code_of(error: Exception) -> Code:
    if isinstance(error, TooLarge):
        return Code.TOO_LARGE
    return Code.FETCH_REFUSED if isinstance(error, FetchRefused) else Code.PROVIDER_ERROR
