"""What a provider's call means. The route only routes; the owner decides."""

from collections.abc import Mapping
from typing import Any

import structlog

from safelight.generations import repo
from safelight.generations.decide import Change, heard
from safelight.generations.lifecycle import Generation
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Provider
from safelight.generations.providers.registry import Providers
from safelight.generations.stories import webhook_ignored
from safelight.generations.tokens import WebhookAddresses
from safelight.infra.failpoints import reach


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

        def hear(generation: Generation, now: int) -> Change:
            mine = reports if generation.provider == provider.name else ()
            return heard(generation, mine, named, chooses_ids=provider.chooses_ids, now=now)

        await reach("generations.hear")
        change = await self._owner.change(generation_id, hear)
        if change is None:
            await self._nobody(generation_id, named)
        return True

    async def _nobody(self, generation_id: str, named: str | None) -> None:
        """A generation that was purged, or never was."""
        organization = await repo.organization_of(self._owner.db, generation_id)
        if organization is None:
            structlog.get_logger().info("webhook.for_nobody", generation=generation_id)
            return
        entry = webhook_ignored(generation_id, named, "the generation is over")
        async with self._owner.db.transaction() as connection:
            await self._owner.record(connection, organization, [entry])
