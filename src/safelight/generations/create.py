"""Accepting a request: its row, tasks, jobs, timer and history are one transaction, and so is the
memory of its Idempotency-Key. Nothing has left the machine before that has committed."""

from collections.abc import Mapping
from typing import Any

from safelight.errors import InvalidRequest
from safelight.generations import repo
from safelight.generations.kinds import WORK
from safelight.generations.lifecycle import Generation, Kind, Task
from safelight.generations.providers.base import Provider
from safelight.generations.providers.registry import Providers
from safelight.generations.request import IdempotencyKeyReused, Wanted
from safelight.generations.stories import started
from safelight.infra import activity, kv
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock, Ids
from safelight.infra.queue.jobs import DAY
from safelight.infra.queue.queue import Queue

_ROUTE = "POST /generations"
_REMEMBERED_MS = DAY * 1000


class Create:
    def __init__(
        self,
        db: Database,
        queue: Queue,
        providers: Providers,
        clock: Clock,
        ids: Ids,
        timeouts: Mapping[Kind, float],
    ) -> None:
        self._db = db
        self._queue = queue
        self._providers = providers
        self._clock = clock
        self._ids = ids
        self._timeouts = timeouts

    async def accept(
        self, organization: str, wanted: Wanted, key: str | None, actor: Mapping[str, str]
    ) -> str:
        """The id: a new one, or the one this key was answered with before."""
        provider = self._providers.choose(wanted.model, wanted.provider)
        if wanted.kind not in provider.kinds:
            raise InvalidRequest(f"kind: {provider.name} does not make a {wanted.kind}.")
        provider.check(wanted.model, wanted.kind, wanted.input)
        generation = self._generation(organization, wanted, provider)
        async with self._db.transaction() as connection:
            if key is not None:
                earlier = await self._claim(connection, organization, key, wanted, generation.id)
                if earlier is not None:
                    return earlier
            await reach("generations.create")
            await repo.add(connection, generation, self._timeouts[generation.kind])
            await reach("generations.create_record")
            told = [started(generation, actor)]
            await activity.append(connection, organization, generation.created_at, *told)
        self._queue.wake(WORK[provider.name])
        self._queue.wake()
        self._queue.bus.announce("activity", organization)
        return generation.id

    def _generation(self, organization: str, wanted: Wanted, provider: Provider) -> Generation:
        now = self._clock.now_ms()
        return Generation(
            id=self._ids.uuid7(now),
            organization=organization,
            provider=provider.name,
            kind=wanted.kind,
            model=wanted.model,
            input=wanted.input,
            count=wanted.count,
            tags=wanted.tags,
            created_at=now,
            timeout_at=now + int(self._timeouts[wanted.kind] * 1000),
            tasks=tuple(self._task(place, provider, now) for place in range(wanted.count)),
        )

    def _task(self, position: int, provider: Provider, now: int) -> Task:
        ours = None if provider.chooses_ids else self._ids.uuid4()
        return Task(self._ids.uuid7(now), position, provider_task_id=ours)

    async def _claim(
        self, connection: Connection, organization: str, key: str, wanted: Wanted, fresh_id: str
    ) -> str | None:
        """None: the key is ours now. A request under way with the same key is waited for."""
        name, now = f"idempotency:{organization}:{_ROUTE}:{key}", self._clock.now_ms()
        value: dict[str, Any] = {"digest": wanted.digest, "id": fresh_id}
        await reach("generations.claim_key")
        if await kv.compare_and_set(connection, name, None, value, now=now, ttl_ms=_REMEMBERED_MS):
            return None
        held = await kv.get(connection, name, now=now)
        if held is None or held["digest"] != wanted.digest:
            raise IdempotencyKeyReused
        return str(held["id"])
