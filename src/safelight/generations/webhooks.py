"""What a provider's call means, and the studio's own calls: jobs of ours that call the same route
that vendors call. The route only routes; the owner decides.

A worker without a server knows of none that it can reach: servers may listen on another machine's
loopback, and the public address may lead through what only others can pass. It has the same
database, so it hears the call itself, as the route would; so does a server that gets no answer from
itself.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from safelight.errors import Unavailable
from safelight.generations import repo
from safelight.generations.change import GenerationChange
from safelight.generations.decide import gave_up
from safelight.generations.hear import Told, heard, hinted, news
from safelight.generations.jobs import DELIVER, StudioWebhookPayload
from safelight.generations.lifecycle import IGNORED, Generation, subject, webhook_ignored
from safelight.generations.orders import WebhookAddresses
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Order, Provider
from safelight.generations.providers.registry import Providers
from safelight.generations.providers.studio import Studio
from safelight.infra import activity
from safelight.infra.activity import Unit, Units
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, Verdict

if TYPE_CHECKING:
    import httpx

_SECONDS = 20.0


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
        try:
            if provider.signs and not await provider.signed(headers, body):
                return False
        except Unavailable:
            await self._ask_instead(provider, generation_id, named)
            raise
        await self._hear(provider, generation_id, named, payload)
        return True

    async def from_here(self, name: str, generation_id: str, named: str, payload: Any) -> None:
        """The word of a provider of our own, which has nothing to prove."""
        if (provider := self._providers.find(name)) is not None:
            await self._hear(provider, generation_id, named, payload)

    async def _hear(
        self, provider: Provider, generation_id: str, named: str | None, payload: Any
    ) -> None:
        organization = await repo.organization_of(self._owner.db, generation_id)
        if organization is None:
            structlog.get_logger().info("webhook.for_nobody", generation=generation_id)
            return
        reports = provider.reports(payload)
        async with self._owner.units.open(organization) as unit:
            told = await _told(unit, generation_id)

            def hear(generation: Generation, now: int) -> GenerationChange:
                mine = reports if generation.provider == provider.name else ()
                chooses = provider.chooses_ids
                return heard(generation, mine, named, chooses_ids=chooses, told=told, now=now)

            if await self._owner.change_in(unit, generation_id, hear) is None:  # purged
                over = webhook_ignored(generation_id, None, "the generation is over")
                unit.tell(*news([over], told))

    async def _ask_instead(self, provider: Provider, generation_id: str, named: str | None) -> None:
        """Whose webhook it is cannot be told now, but what it is about can be asked."""
        organization = await repo.organization_of(self._owner.db, generation_id)
        if organization is None or not provider.can_be_asked:
            return

        def hint(generation: Generation, _: int) -> GenerationChange:
            return hinted(generation, named if generation.provider == provider.name else None)

        await self._owner.change(organization, generation_id, hint)


async def _told(unit: Unit, generation_id: str) -> Told:
    """What has been ignored before, read behind the generation's lock: of two that come at the same
    moment one is told."""
    await repo.lock(unit.connection, generation_id)
    lines = await activity.told(unit.connection, unit.organization, subject(generation_id), IGNORED)
    return {(facts["artifactId"], facts["reason"]) for facts in lines}


async def announce_later(units: Units, order: Order, outcome: str, delay: float) -> None:
    """Twice for one task is once: the job's key is the artifact."""
    told = StudioWebhookPayload(
        order.generation_id, order.artifact_id, order.task_id or "", outcome
    )
    organization = await repo.organization_of(units.db, order.generation_id)
    async with units.open(organization or "") as unit:
        await unit.enqueue(DELIVER, told, key=order.artifact_id, run_in=delay)


class StudioWebhooks:
    def __init__(self, webhooks: Webhooks, owner: Owner, addresses: WebhookAddresses) -> None:
        self._webhooks = webhooks
        self._owner = owner
        self._addresses = addresses
        self._client: httpx.AsyncClient | None = None

    async def handle(self, job: Job[StudioWebhookPayload]) -> Verdict:
        told = job.payload
        body = {"taskId": told.taskId, "status": told.outcome}
        url = self._addresses.url_here(Studio.name, told.generationId, told.artifactId)
        if url is None or not await self._call(url, body):
            await self._webhooks.from_here(Studio.name, told.generationId, told.artifactId, body)
        return Done()

    async def on_dead(self, unit: Unit, job: Job[StudioWebhookPayload], failure: Failure) -> None:
        """Nothing else would end the task before its time, and then without saying why."""

        def fail(generation: Generation, now: int) -> GenerationChange:
            return gave_up(generation, job.payload.artifactId, failure.message, now)

        await self._owner.change_in(unit, job.payload.generationId, fail)

    async def _call(self, url: str, body: Mapping[str, str]) -> bool:
        """Whether it was heard; if it was and we do not know, hearing it again changes nothing."""
        import httpx

        timeout = httpx.Timeout(_SECONDS)
        self._client = self._client or httpx.AsyncClient(timeout=timeout, trust_env=False)
        try:
            await reach("generations.deliver")
            response = await self._client.post(url, json=body)
        except httpx.HTTPError as error:
            answer = type(error).__name__
        else:
            if response.is_success:
                return True
            answer = str(response.status_code)
        structlog.get_logger().warning("webhook.own_not_answered", answer=answer)
        return False

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
