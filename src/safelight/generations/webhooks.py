"""What a provider's call means, and the studio's own calls: jobs of ours that call the same route
that vendors call. The route only routes; the owner decides."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from safelight.generations import repo
from safelight.generations.decide import GenerationChange, heard
from safelight.generations.jobs import DELIVER, StudioWebhookPayload
from safelight.generations.lifecycle import Generation, webhook_ignored
from safelight.generations.orders import WebhookAddresses
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Order, Provider
from safelight.generations.providers.registry import Providers
from safelight.infra.activity import Units
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict

if TYPE_CHECKING:
    import httpx

_SECONDS = 20.0
_SILENT = "silent"  # told to do nothing: the timer will end it


class Webhooks:
    def __init__(self, owner: Owner, providers: Providers, addresses: WebhookAddresses) -> None:
        self._owner = owner
        self._providers = providers
        self._addresses = addresses

    def known(self, provider: str, generation_id: str, token: str) -> Provider | None:
        """The provider, if its address and token are ones we gave."""
        fits = self._addresses.fits(generation_id, token)
        return self._providers.find(provider) if fits else None

    async def receive(
        self,
        provider: Provider,
        generation_id: str,
        named: str | None,
        headers: Mapping[str, str],
        body: bytes,
        payload: Any,
    ) -> bool:
        """False: the signature is not the provider's."""
        if provider.signs and not await provider.signed(headers, body):
            return False
        reports = provider.reports(payload)

        def hear(generation: Generation, now: int) -> GenerationChange:
            mine = reports if generation.provider == provider.name else ()
            return heard(generation, mine, named, chooses_ids=provider.chooses_ids, now=now)

        organization = await repo.organization_of(self._owner.db, generation_id)
        if organization is None:
            structlog.get_logger().info("webhook.for_nobody", generation=generation_id)
            return True
        async with self._owner.units.open(organization) as unit:
            if await self._owner.change_in(unit, generation_id, hear) is None:  # purged
                unit.tell(webhook_ignored(generation_id, named, "the generation is over"))
        return True


class StudioWebhooks:
    def __init__(self, units: Units, addresses: WebhookAddresses) -> None:
        self._units = units
        self._addresses = addresses
        self._client: httpx.AsyncClient | None = None

    async def announce_later(self, order: Order, outcome: str, delay: float) -> None:
        """Twice for one task is once: the job's key is the artifact."""
        if outcome == _SILENT:
            return
        told = StudioWebhookPayload(
            order.generation_id, order.artifact_id, order.task_id or "", outcome
        )
        async with self._units.open("") as unit:
            await unit.enqueue(DELIVER, told, key=order.artifact_id, run_in=delay)

    async def handle(self, job: Job[StudioWebhookPayload]) -> Verdict:
        import httpx

        told, timeout = job.payload, httpx.Timeout(_SECONDS)
        self._client = self._client or httpx.AsyncClient(timeout=timeout, trust_env=False)
        url = self._addresses.url("studio", told.generationId, told.artifactId)
        body = {"taskId": told.taskId, "status": told.outcome}
        try:
            await reach("generations.deliver")
            response = await self._client.post(url, json=body)
        except httpx.HTTPError as error:
            return Retry(Failure("UNREACHABLE", f"Our own webhook: {type(error).__name__}."))
        if response.is_success:
            return Done()
        return Retry(Failure("REFUSED", f"Our own webhook answered {response.status_code}."))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
