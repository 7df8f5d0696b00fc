"""Generations opened: services for routes, handlers for workers."""

from collections.abc import Callable

from safelight.generations.alarm import Alarm, Stop
from safelight.generations.artifacts.deletion import ArtifactDeletion, WhenDeleted
from safelight.generations.create import Create
from safelight.generations.fetch import Fetcher
from safelight.generations.jobs import ALARM, DELIVER, ORPHANS, PURGE, STOP, work
from safelight.generations.keep import Keeper
from safelight.generations.lifecycle import MediaKind
from safelight.generations.orders import Orders, WebhookAddresses
from safelight.generations.owner import Owner
from safelight.generations.providers.base import ProviderDeps
from safelight.generations.providers.registry import Providers
from safelight.generations.sweep import GenerationSweep
from safelight.generations.tagging import Tagging
from safelight.generations.webhooks import StudioWebhooks, Webhooks
from safelight.generations.work import Pace, Work
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.objects.store import ObjectStore


def open_generations(
    base: Base,
    store: ObjectStore,
    secret: str,
    address: Callable[[], str],
    *,
    when_artifact_deleted: WhenDeleted | None = None,
    fetcher: Fetcher | None = None,
) -> Feature:
    """`address` is asked whenever a webhook's address is made; `secret` signs those."""
    settings, clock, units = base.settings, base.clock, base.units
    addresses = WebhookAddresses(secret, address)
    calls = StudioWebhooks(units, addresses)
    providers = Providers(ProviderDeps(settings, clock, calls.announce_later))
    owner, orders = Owner(units), Orders(addresses, clock)
    fetcher = fetcher or Fetcher(settings.outgoing_allow, max_bytes=settings.artifact_max_bytes)
    timeouts = {
        MediaKind.IMAGE: settings.generation_image_timeout_seconds,
        MediaKind.VIDEO: settings.generation_video_timeout_seconds,
    }
    paces = {
        one.name: Pace(clock, settings.generation_concurrency, one.per_minute)
        for one in providers.offered
    }
    seconds = settings.generation_fetch_seconds
    worker = Work(
        owner, providers, paces, orders, Keeper(owner, store, fetcher), base.ids, base.bus,
        base.metrics, fetch_seconds=seconds,
    )  # fmt: skip
    sweep = GenerationSweep(base.db, store, clock, keep_days=settings.generation_state_days)

    async def close() -> None:
        await providers.close()
        await calls.close()

    return Feature(
        services=(
            providers,
            owner,
            Create(units, providers, base.ids, timeouts),
            Tagging(units),
            Webhooks(owner, providers, addresses),
            ArtifactDeletion(units, store, when_artifact_deleted),
        ),
        handlers=(
            *(Handler(work(one.name), worker.handle, worker.on_dead) for one in providers.known),
            Handler(ALARM, Alarm(owner, providers, orders, timeouts, seconds).handle),
            Handler(STOP, Stop(owner, providers, orders).handle),
            Handler(DELIVER, calls.handle),
            upkeep(PURGE, sweep.purge),
            upkeep(ORPHANS, sweep.orphans),
        ),
        close=close,
    )
