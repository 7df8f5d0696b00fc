"""The composition root: settings in, everything a running process needs out.

Opened in the order things stand on each other, closed in reverse. Nothing else builds services.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from safelight.accounts.first_start import secret_key
from safelight.accounts.services import account_services
from safelight.admin.engine import Engine
from safelight.admin.upkeep import Upkeep
from safelight.approvals import lifecycle as approvals_lifecycle
from safelight.classification import base as classification_base
from safelight.classification.classifiers import build as build_classifier
from safelight.classification.jobs import RUN
from safelight.classification.run import Classification
from safelight.generations import lifecycle as generations_lifecycle
from safelight.generations.services import Generations, open_generations
from safelight.http.paging import Cursors
from safelight.http.registry import Registry
from safelight.infra.activity import Units
from safelight.infra.base import Base, Feature
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.history import Messages
from safelight.infra.injected import Clock, Ids, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.migrate import migrate
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.ingest import lifecycle as ingest_lifecycle
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.services import open_ingest
from safelight.ingest.sweep import IngestSweep
from safelight.library import entry as library_entry
from safelight.library.deletion import Deletion
from safelight.library.project import Projection
from safelight.live.hub import Hub
from safelight.objects.deliver import Deliver
from safelight.objects.services import OpenedStore, open_objects, open_store
from safelight.objects.store import ObjectStore
from safelight.reactions import KINDS, handlers, reactions, schedules
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings
from safelight.submissions import lifecycle as submissions_lifecycle
from safelight.submissions import services as submissions
from safelight.web.assets import Assets
from safelight.web.rendering import Pages

MESSAGES = Messages(
    ingest_lifecycle.MESSAGES,
    library_entry.MESSAGES,
    classification_base.MESSAGES,
    approvals_lifecycle.MESSAGES,
    generations_lifecycle.MESSAGES,
    submissions_lifecycle.MESSAGES,
)


@dataclass(frozen=True, slots=True)
class Opening:
    """What everything else stands on."""

    settings: Settings
    clock: Clock
    ids: Ids
    metrics: Metrics
    db: Database
    bus: Bus
    queue: Queue
    units: Units
    directory: IngestDirectory
    opened: OpenedStore
    secret: str
    address: Callable[[], str]

    @property
    def base(self) -> Base:
        return Base(
            self.settings, self.clock, self.ids, self.metrics, self.db, self.bus, self.queue,
            self.units,
        )  # fmt: skip

    @property
    def store(self) -> ObjectStore:
        return self.opened.store


@dataclass(frozen=True, slots=True)
class Features:
    """What both answering and working need."""

    objects: Feature
    ingest: Feature
    generations: Generations
    submissions: submissions.Front


@asynccontextmanager
async def open_services(
    settings: Settings,
    database_url: str,
    *,
    worker: bool = False,
    address: Callable[[], str] | None = None,
) -> AsyncIterator[Registry]:
    """`address` is where this server can be called; webhooks of its own go there."""
    async with AsyncExitStack() as stack:
        base = await _open_base(stack, settings, database_url, address or _configured(settings))
        features = _open_features(stack, base)
        registry = _registry(stack, base, features)
        if removed := await registry.get(IngestSweep).at_start():
            structlog.get_logger().info("swept leftovers of an earlier run", files=removed)
        registry.add(Engine(await _start_worker(stack, base, features) if worker else None))
        yield registry


async def _open_base(
    stack: AsyncExitStack, settings: Settings, database_url: str, address: Callable[[], str]
) -> Opening:
    clock, ids, metrics = SystemClock(), RandomIds(), Metrics()
    await migrate(database_url)
    db = await Database.open(database_url, pool_size=settings.database_pool_size)
    stack.push_async_callback(db.close)
    secret = await secret_key(db, settings, ids)
    directory = IngestDirectory(settings.ingest_path, ids)
    stack.callback(directory.close)
    process = ids.short("proc")
    bus = Bus(db, process)
    await bus.start()
    stack.push_async_callback(bus.stop)
    queue = Queue(db, bus, clock, owner=process, node=directory.node, kinds=KINDS)
    units = Units(db, bus, clock)
    opened = open_store(Base(settings, clock, ids, metrics, db, bus, queue, units))
    return Opening(
        settings, clock, ids, metrics, db, bus, queue, units, directory, opened, secret, address
    )


def _open_features(stack: AsyncExitStack, base: Opening) -> Features:
    settings, db, clock = base.settings, base.db, base.clock
    front = submissions.front(_submissions_ground(base))
    projection = Projection(
        base.units, base.store, lambda: base.queue.wake(RUN), telling=base.opened.telling
    )
    deliver = Deliver(base.units, reactions(projection, front.gone))
    objects = open_objects(base.base, base.opened, deliver)
    ingest = open_ingest(base.base, base.directory, base.store, deliver)
    for feature in (objects, ingest):
        if feature.close:
            stack.push_async_callback(feature.close)
    generations = open_generations(
        settings, db, base.queue, base.store, clock, base.ids, base.metrics, base.secret,
        base.address, when_artifact_deleted=front.gone.artifact_deleted,
    )  # fmt: skip
    stack.push_async_callback(generations.close)
    return Features(objects, ingest, generations, front)


async def _start_worker(stack: AsyncExitStack, base: Opening, features: Features) -> Worker:
    db, queue, clock, store = base.db, base.queue, base.clock, base.store
    front = features.submissions
    classifier = build_classifier(base.settings, clock)
    stack.push_async_callback(classifier.close)
    sandbox = Sandbox(submissions.limits(base.settings))
    stack.push_async_callback(sandbox.close)
    tools = await stack.enter_async_context(submissions.models(base.settings, db, classifier))
    classify = Classification(base.units, store, classifier, sandbox)
    everything = (
        *features.ingest.handlers,
        *features.objects.handlers,
        *handlers(classify, front.approvals, Upkeep(db, clock)),
        *features.generations.handlers,
        *submissions.work(_submissions_ground(base), front, sandbox, tools),
    )  # fmt: skip
    worker = Worker(queue, everything, schedules(base.settings))
    await worker.start()
    stack.push_async_callback(worker.stop, base.settings.shutdown_seconds)
    return worker


def _registry(stack: AsyncExitStack, base: Opening, features: Features) -> Registry:
    db, clock, ids, queue = base.db, base.clock, base.ids, base.queue
    hub = Hub(db, base.bus, MESSAGES)
    stack.enter_context(hub.listening())
    registry = Registry(
        base.settings, db, base.metrics, base.bus, queue, hub, MESSAGES,
        Cursors(base.secret), Deletion(base.store, queue, clock), Pages(Assets()),
        *features.objects.services,
        *features.ingest.services,
        *account_services(db, clock, ids, base.secret),
        *features.generations.services,
        *features.submissions.services(),
    )  # fmt: skip
    registry.add(clock, as_type=Clock)
    registry.add(ids, as_type=Ids)
    registry.add(base.store, as_type=ObjectStore)
    return registry


def _submissions_ground(base: Opening) -> submissions.Ground:
    return submissions.Ground(
        base.settings, base.db, base.bus, base.queue, base.clock, base.ids, base.store
    )


def _configured(settings: Settings) -> Callable[[], str]:
    return lambda: settings.public_url or f"http://{settings.host}:{settings.port}"
