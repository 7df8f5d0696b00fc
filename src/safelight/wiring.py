"""The composition root: settings in, everything a running process needs out.

Opened in the order things stand on each other, closed in reverse. Nothing else builds services.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from safelight.accounts.first_start import secret_key
from safelight.accounts.services import open_accounts
from safelight.admin.services import Engine, open_admin
from safelight.approvals import lifecycle as approvals_lifecycle
from safelight.classification import lifecycle as classification_lifecycle
from safelight.classification.base import Classifier
from safelight.classification.classifiers import build as build_classifier
from safelight.classification.jobs import RUN
from safelight.classification.services import open_classification
from safelight.generations import lifecycle as generations_lifecycle
from safelight.generations.services import Generations, open_generations
from safelight.http.frame import Registry
from safelight.http.paging import Cursors
from safelight.infra.activity import Units
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.migrate import migrate
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.ingest import lifecycle as ingest_lifecycle
from safelight.ingest.accept import Ingest
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.offload import Offload
from safelight.ingest.receive import Limits
from safelight.ingest.sweep import Sweep
from safelight.library import entry as library_entry
from safelight.library.services import Library, open_library
from safelight.live.routes import Hub, Messages
from safelight.objects.deliver import Deliver
from safelight.objects.notifications.intake import Intake
from safelight.objects.registry import Ground, Opened, open_store
from safelight.objects.store import ObjectStore
from safelight.reactions import KINDS, handlers, reactions, schedules
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings
from safelight.submissions import lifecycle as submissions_lifecycle
from safelight.submissions.services import Submissions, limits, open_submissions
from safelight.web.assets import Assets
from safelight.web.rendering import Pages

MESSAGES = Messages(
    ingest_lifecycle.MESSAGES,
    library_entry.MESSAGES,
    classification_lifecycle.MESSAGES,
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
    opened: Opened
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

    sweep: Sweep
    intake: Intake
    library: Library
    generations: Generations
    classifier: Classifier
    sandbox: Sandbox
    submissions: Submissions


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
        if removed := await features.sweep.at_start():
            structlog.get_logger().info("swept leftovers of an earlier run", files=removed)
        engine = Engine(await _start_worker(stack, base, features) if worker else None)
        yield _registry(stack, base, features, engine)


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
    opened = open_store(Ground(settings, db, clock, ids, metrics))
    stack.push_async_callback(opened.store.close)
    process = ids.short("proc")
    bus = Bus(db, process)
    await bus.start()
    stack.push_async_callback(bus.stop)
    queue = Queue(db, bus, clock, owner=process, node=directory.node, kinds=KINDS)
    units = Units(db, bus, clock)
    return Opening(
        settings, clock, ids, metrics, db, bus, queue, units, directory, opened, secret, address
    )


def _open_features(stack: AsyncExitStack, base: Opening) -> Features:
    settings, db, clock = base.settings, base.db, base.clock
    classifier = build_classifier(settings, clock)
    stack.push_async_callback(classifier.close)
    sandbox = Sandbox(limits(settings))
    stack.push_async_callback(sandbox.close)
    submissions = open_submissions(base.base, base.store, sandbox, classifier)
    if submissions.close:
        stack.push_async_callback(submissions.close)
    generations = open_generations(
        settings, db, base.queue, base.store, clock, base.ids, base.metrics, base.secret,
        base.address, when_artifact_deleted=submissions.deleted_sources.on_artifact_deleted,
    )  # fmt: skip
    stack.push_async_callback(generations.close)
    return Features(
        sweep=Sweep(db, base.directory, clock, base.metrics, settings.ingest_ttl_seconds),
        intake=Intake(db, base.queue, clock, base.opened.bucket),
        library=open_library(base.base, base.store, RUN, telling=base.opened.telling),
        generations=generations,
        classifier=classifier,
        sandbox=sandbox,
        submissions=submissions,
    )


async def _start_worker(stack: AsyncExitStack, base: Opening, features: Features) -> Worker:
    db, queue, clock, store = base.db, base.queue, base.clock, base.store
    sources = features.submissions.deleted_sources
    deliver = Deliver(base.units, reactions(features.library.projection, sources))
    offload = Offload(db, store, base.directory, queue, deliver, clock, base.metrics)
    everything = (
        *handlers(
            offload, features.sweep, deliver, base.opened, features.intake,
        ),
        *open_admin(base.base).handlers,
        *open_classification(
            base.base, store, features.classifier, features.sandbox
        ).handlers,
        *features.generations.handlers,
        *features.submissions.handlers,
    )  # fmt: skip
    worker = Worker(queue, everything, schedules(base.settings))
    await worker.start()
    stack.push_async_callback(worker.stop, base.settings.shutdown_seconds)
    return worker


def _registry(stack: AsyncExitStack, base: Opening, features: Features, engine: Engine) -> Registry:
    db, clock, ids, queue = base.db, base.clock, base.ids, base.queue

    def announce(organization: str) -> None:
        queue.wake(OFFLOAD)
        base.bus.announce("activity", organization)

    ingest = Ingest(db, base.directory, _limits(base.settings), clock, ids, base.metrics, announce)
    stack.callback(ingest.close)
    hub = Hub(db, base.bus, MESSAGES)
    stack.enter_context(hub.listening())
    registry = Registry(
        base.settings, db, base.metrics, base.bus, base.units, queue, engine, hub, ingest, MESSAGES,
        Cursors(base.secret), features.library.deletion, features.intake, Pages(Assets()),
        *open_accounts(base.base, base.secret).services,
        *features.generations.services,
        *features.submissions.services,
    )  # fmt: skip
    registry.add(clock, as_type=Clock)
    registry.add(ids, as_type=Ids)
    registry.add(base.store, as_type=ObjectStore)
    return registry


def _configured(settings: Settings) -> Callable[[], str]:
    return lambda: settings.public_url or f"http://{settings.host}:{settings.port}"


def _limits(settings: Settings) -> Limits:
    return Limits(settings.max_upload_bytes, settings.max_pixels, settings.accepted_types)
