"""Generations opened: services for routes, handlers for workers."""

from functools import partial

import structlog

from safelight.generations.alarm import Alarm, Stop
from safelight.generations.artifacts.deletion import ArtifactDeletion, WhenDeleted
from safelight.generations.artifacts.thumbnails.thumbnails import ArtifactThumbnails
from safelight.generations.create import Create
from safelight.generations.fetch import Fetcher
from safelight.generations.jobs import ALARM, DELIVER, ORPHANS, PURGE, STOP, work
from safelight.generations.keep import Keeper
from safelight.generations.lifecycle import MediaKind
from safelight.generations.orders import Orders, WebhookAddresses
from safelight.generations.owner import Owner
from safelight.generations.pace import Pace
from safelight.generations.providers.base import ProviderDeps
from safelight.generations.providers.registry import Providers
from safelight.generations.sweep import GenerationSweep
from safelight.generations.tagging import Tagging
from safelight.generations.verify import Verifier
from safelight.generations.webhooks import StudioWebhooks, Webhooks, announce_later
from safelight.generations.work import Work
from safelight.infra.base import Base, Feature
from safelight.infra.files import make_directory
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.objects.store import ObjectStore
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings

_MOST_PIXELS_IN_ALL = 1_000_000_000  # over all frames; of more than that the first is looked at


def open_generations(
    base: Base,
    store: ObjectStore,
    sandbox: Sandbox,
    addresses: WebhookAddresses,
    *,
    when_artifact_deleted: WhenDeleted | None = None,
    fetcher: Fetcher | None = None,
) -> Feature:
    settings, clock, units = base.settings, base.clock, base.units
    providers = Providers(ProviderDeps(settings, clock, partial(announce_later, units), sandbox))
    _warn(settings, providers)
    owner, orders = Owner(units), Orders(addresses, clock)
    webhooks = Webhooks(owner, providers, addresses)
    calls = StudioWebhooks(webhooks, owner)
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
    bounds = Bounds(settings.max_pixels, settings.scan_max_frames, _MOST_PIXELS_IN_ALL)
    make_directory(settings.data_dir)
    keeper = Keeper(owner, store, fetcher, Verifier(sandbox, bounds), settings.data_dir)
    worker = Work(
        owner, providers, paces, orders, keeper, base.ids, base.bus, base.metrics,
        fetch_seconds=seconds,
    )  # fmt: skip
    thumbnails = ArtifactThumbnails(base.db, store, sandbox, drawing=settings.thumbnails == "on")
    sweep = GenerationSweep(base.db, store, clock, keep_days=settings.generation_state_days)

    return Feature(
        services=(
            providers,
            owner,
            Create(units, providers, base.ids, timeouts),
            Tagging(units),
            webhooks,
            ArtifactDeletion(units, store, when_artifact_deleted),
            thumbnails,
        ),
        handlers=(
            *(Handler(work(one.name), worker.handle, worker.on_dead) for one in providers.known),
            Handler(ALARM, Alarm(owner, providers, orders, timeouts, seconds).handle),
            Handler(STOP, Stop(owner, providers, orders).handle),
            Handler(DELIVER, calls.handle, calls.on_dead),
            upkeep(PURGE, sweep.purge),
            upkeep(ORPHANS, sweep.orphans),
        ),
        close=partial(_close, providers, thumbnails),
    )


async def _close(providers: Providers, thumbnails: ArtifactThumbnails) -> None:
    await thumbnails.close()
    await providers.close()


def _warn(settings: Settings, providers: Providers) -> None:
    vendors = [one.name for one in providers.offered if one.hosts]
    if vendors and settings.public_url is None:
        structlog.get_logger().warning(
            "vendors cannot call this server, so a video is found only by the question at the end "
            "of its time; set SAFELIGHT_PUBLIC_URL",
            vendors=vendors,
        )
