"""What a provider's call means. The route only routes; the owner decides.

The studio calls nobody: what it would tell is a job of ours, heard by whichever process runs it, as
the route would hear it. It needs no address, be it a server's behind a proxy or a worker's without
any, and has nothing to prove.
"""

from collections.abc import Mapping
from typing import Any

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
from safelight.infra.queue.jobs import Done, Failure, Job, Verdict


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
    def __init__(self, webhooks: Webhooks, owner: Owner) -> None:
        self._webhooks = webhooks
        self._owner = owner

    async def handle(self, job: Job[StudioWebhookPayload]) -> Verdict:
        told = job.payload
        body = {"taskId": told.taskId, "status": told.outcome}
        await self._webhooks.from_here(Studio.name, told.generationId, told.artifactId, body)
        return Done()

    async def on_dead(self, unit: Unit, job: Job[StudioWebhookPayload], failure: Failure) -> None:
        """Nothing else would end the task before its time, and then without saying why."""

        def fail(generation: Generation, now: int) -> GenerationChange:
            return gave_up(generation, job.payload.artifactId, failure.message, now)

        await self._owner.change_in(unit, job.payload.generationId, fail)
