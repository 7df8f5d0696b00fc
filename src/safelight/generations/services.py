"""What the composition root builds of generations: services for routes, handlers for workers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from safelight.generations import jobs
from safelight.generations.alarm import Alarm, Stop
from safelight.generations.artifacts.deletion import Deletion, WhenDeleted
from safelight.generations.cancel import Cancel
from safelight.generations.create import Create
from safelight.generations.fetch import Fetcher
from safelight.generations.keep import Keeper
from safelight.generations.lifecycle import Kind
from safelight.generations.orders import Orders
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Ground
from safelight.generations.providers.pace import Pace
from safelight.generations.providers.registry import Providers
from safelight.generations.studio.delivery import Delivery
from safelight.generations.sweep import Sweep
from safelight.generations.tagging import Tagging
from safelight.generations.tokens import WebhookAddresses
from safelight.generations.webhooks.receive import Webhooks
from safelight.generations.work import Work
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.queue import Queue
from safelight.objects.store import ObjectStore
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class Generations:
    """`services` go into the registry, `handlers` to the worker; `close` comes last."""

    providers: Providers
    services: tuple[object, ...]
    handlers: tuple[Handler[Any], ...]
    delivery: Delivery

    async def close(self) -> None:
        await self.providers.close()
        await self.delivery.close()


def open_generations(
    settings: Settings,
    db: Database,
    queue: Queue,
    store: ObjectStore,
    clock: Clock,
    ids: Ids,
    metrics: Metrics,
    secret: str,
    address: Callable[[], str],
    *,
    fetcher: Fetcher | None = None,
    when_artifact_deleted: WhenDeleted | None = None,
) -> Generations:
    """`address` is asked whenever a webhook's address is made; `secret` signs those."""
    addresses = WebhookAddresses(secret, address)
    delivery = Delivery(queue, addresses)
    providers = Providers(Ground(settings, clock, delivery.announce_later))
    owner, orders = Owner(db, queue, clock), Orders(addresses, clock)
    fetcher = fetcher or Fetcher(settings.outgoing_allow, max_bytes=settings.artifact_max_bytes)
    timeouts = {
        Kind.IMAGE: settings.generation_image_timeout_seconds,
        Kind.VIDEO: settings.generation_video_timeout_seconds,
    }
    paces = {
        one.name: Pace(clock, settings.generation_concurrency, one.per_minute)
        for one in providers.offered
    }
    seconds = settings.generation_fetch_seconds
    keeper = Keeper(owner, store, fetcher)
    work = Work(owner, providers, paces, orders, keeper, ids, metrics, fetch_seconds=seconds)
    alarm = Alarm(owner, providers, orders, timeouts, seconds)
    sweep = Sweep(db, store, clock, keep_days=settings.generation_state_days)
    return Generations(
        providers,
        (
            providers,
            Create(db, queue, providers, clock, ids, timeouts),
            Cancel(owner),
            Tagging(db),
            Webhooks(owner, providers, addresses),
            Deletion(store, clock, queue.bus, when_artifact_deleted),
        ),
        jobs.handlers(work, alarm, Stop(owner, providers, orders), delivery, sweep),
        delivery,
    )
