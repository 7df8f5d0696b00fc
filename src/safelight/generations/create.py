"""Accepting a request: its row, tasks, jobs, timer and history are one unit of work, and so is the
memory of its Idempotency-Key. Nothing has left the machine before that has committed."""

from collections.abc import Mapping
from typing import Any

from safelight.errors import InvalidRequest
from safelight.generations import repo
from safelight.generations.jobs import ALARM, AlarmPayload, work
from safelight.generations.lifecycle import Generation, MediaKind, Task, started
from safelight.generations.providers.base import Provider
from safelight.generations.providers.registry import Providers
from safelight.generations.request import GenerationRequest, IdempotencyKeyReused
from safelight.infra import kv
from safelight.infra.activity import Unit, Units
from safelight.infra.injected import Ids
from safelight.infra.queue.jobs import DAY, TOPIC
from safelight.quotas.admit import look, order
from safelight.quotas.lifecycle import Meter

_ROUTE = "POST /generations"
_REMEMBERED_MS = DAY * 1000


class Create:
    def __init__(
        self, units: Units, providers: Providers, ids: Ids, timeouts: Mapping[MediaKind, float]
    ) -> None:
        self._units = units
        self._providers = providers
        self._ids = ids
        self._timeouts = timeouts

    async def accept(
        self,
        organization: str,
        wanted: GenerationRequest,
        key: str | None,
        actor: Mapping[str, str],
    ) -> str:
        """The id: a new one, or the one this key was answered with before."""
        provider = self._providers.choose(wanted.model, wanted.provider)
        if wanted.kind not in provider.kinds:
            raise InvalidRequest(f"kind: {provider.name} does not make a {wanted.kind}.")
        provider.check(wanted.model, wanted.kind, wanted.input)
        async with self._units.open(organization) as unit:
            generation = self._generation(organization, wanted, provider, unit.now)
            if key is not None:
                earlier = await _claim(unit, key, wanted, generation.id)
                if earlier is not None:
                    return earlier
            await repo.add(unit.connection, generation)
            unit.announce(TOPIC, work(provider.name).name)
            seconds = self._timeouts[generation.kind]
            alarm = AlarmPayload(generation.id)
            await unit.enqueue(ALARM, alarm, key=generation.id, run_in=seconds)
            unit.tell(started(generation, actor))
            await look(unit.connection, organization, unit.now, Meter.STORED_BYTES)
            await order(unit, Meter.GENERATIONS, generation.count)
        return generation.id

    def _generation(
        self, organization: str, wanted: GenerationRequest, provider: Provider, now: int
    ) -> Generation:
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


async def _claim(unit: Unit, key: str, wanted: GenerationRequest, fresh_id: str) -> str | None:
    """None: the key is ours now. A request under way with the same key is waited for."""
    name, now = f"idempotency:{unit.organization}:{_ROUTE}:{key}", unit.now
    value: dict[str, Any] = {"digest": wanted.digest, "id": fresh_id}
    ttl = _REMEMBERED_MS
    if await kv.compare_and_set(unit.connection, name, None, value, now=now, ttl_ms=ttl):
        return None
    held = await kv.get(unit.connection, name, now=now)
    if held is None or held["digest"] != wanted.digest:
        raise IdempotencyKeyReused
    return str(held["id"])
