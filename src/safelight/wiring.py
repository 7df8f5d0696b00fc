"""The composition root: settings in, everything a running process needs out.

Opened in the order things stand on each other, closed in reverse. Nothing else builds services.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import structlog

from safelight.accounts.first_start import secret_key
from safelight.accounts.services import open_accounts
from safelight.admin import jobs as admin_jobs
from safelight.admin.services import Engine, open_admin
from safelight.approvals import jobs as approvals_jobs
from safelight.approvals import lifecycle as approvals_lifecycle
from safelight.classification import jobs as classification_jobs
from safelight.classification import lifecycle as classification_lifecycle
from safelight.classification.classifiers import build as build_classifier
from safelight.classification.services import open_classification
from safelight.generations import jobs as generations_jobs
from safelight.generations import lifecycle as generations_lifecycle
from safelight.generations.orders import WebhookAddresses
from safelight.generations.services import open_generations
from safelight.http.frame import Registry
from safelight.http.paging import Cursors
from safelight.infra.base import Base, Feature
from safelight.infra.bus import CONNECTIONS as BUS_CONNECTIONS
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.identity import same_database
from safelight.infra.injected import Clock, Ids, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.migrate import check_version, migrate
from safelight.infra.pooler import survey
from safelight.infra.queue.jobs import JobKind, Schedule
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import CONNECTIONS as WORKER_CONNECTIONS
from safelight.infra.queue.worker import Worker
from safelight.infra.reading import FreshReads
from safelight.infra.steady import ClockWatch
from safelight.ingest import jobs as ingest_jobs
from safelight.ingest import lifecycle as ingest_lifecycle
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.nodes.signs import SignsOfLife
from safelight.ingest.put_back import UploadOriginals
from safelight.ingest.services import open_directory, open_ingest
from safelight.ingest.sweep import IngestSweep
from safelight.library import entry as library_entry
from safelight.library import jobs as library_jobs
from safelight.library.project import Deliver
from safelight.library.reconcile.reconcile import LibraryReconcile
from safelight.library.services import open_library, sides_of
from safelight.library.thumbnails.services import open_thumbnails
from safelight.live.messages import Messages
from safelight.live.routes import Hub, Seats
from safelight.objects import jobs as objects_jobs
from safelight.objects.services import OpenedStore, open_objects, open_store
from safelight.objects.store import ObjectStore
from safelight.quotas import jobs as quotas_jobs
from safelight.quotas.limits import declare
from safelight.quotas.services import open_quotas
from safelight.reactions import reactions
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings
from safelight.submissions import jobs as submissions_jobs
from safelight.submissions import lifecycle as submissions_lifecycle
from safelight.submissions.services import limits, open_submissions
from safelight.web.assets import Assets
from safelight.web.rendering import Pages

_JOBS = (
    ingest_jobs,
    objects_jobs,
    library_jobs,
    classification_jobs,
    generations_jobs,
    approvals_jobs,
    submissions_jobs,
    quotas_jobs,
    admin_jobs,
)
_FEW_CONNECTIONS = 3
KINDS: tuple[JobKind[Any], ...] = tuple(kind for jobs in _JOBS for kind in jobs.KINDS)
MESSAGES = Messages(
    ingest_lifecycle.MESSAGES,
    library_entry.MESSAGES,
    classification_lifecycle.MESSAGES,
    approvals_lifecycle.MESSAGES,
    generations_lifecycle.MESSAGES,
    submissions_lifecycle.MESSAGES,
)


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return tuple(schedule for jobs in _JOBS for schedule in jobs.schedules(settings))


@asynccontextmanager
async def open_services(
    settings: Settings,
    database_url: str,
    *,
    worker: bool = False,
    address: Callable[[], str] | None = None,
    between: Callable[[], None] = lambda: None,
) -> AsyncIterator[Registry]:
    """`address` is where others can call this server, if it is one. `between` is called between the
    steps, and ends them by raising."""
    async with AsyncExitStack() as stack:
        db = await _open_database(stack, settings, database_url, worker=worker)
        directory = await open_directory(db, settings.ingest_path, RandomIds())
        stack.callback(directory.close)
        between()
        base = await _open_base(stack, settings, db, directory.node)
        clocks = ClockWatch(base.db, base.clock, base.metrics)
        await clocks.start()
        stack.push_async_callback(clocks.stop)
        await declare(base.db, settings)
        between()
        secret = await secret_key(base.db, settings, base.ids)
        opened = await open_store(base, UploadOriginals(db))
        webhooks = WebhookAddresses(secret, address or _configured(settings))
        sandbox = Sandbox(limits(settings))
        stack.push_async_callback(sandbox.close)
        features, store = await _open_features(
            stack, base, opened, directory, secret, webhooks, sandbox
        )
        registry = _registry(stack, base, features, store, secret)
        if removed := await registry.get(IngestSweep).at_start():
            structlog.get_logger().info("swept leftovers of an earlier run", files=removed)
        between()
        lacking = sandbox.protections.missing
        structlog.get_logger().info("images are opened in children", lacking=lacking)
        running = await _start_worker(stack, base, features) if worker else None
        registry.add(Engine(running, sandbox))
        signs = SignsOfLife(db, directory, answers=address is not None, works=worker)
        stack.push_async_callback(signs.stop)
        signs.start()
        yield registry


@asynccontextmanager
async def open_reconcile(settings: Settings, database_url: str) -> AsyncIterator[LibraryReconcile]:
    """What `safelight reconcile` needs beside running servers: no worker, no children, no files of
    uploads on their way. It migrates nothing."""
    async with AsyncExitStack() as stack:
        address = await survey(database_url, settings.database_direct)
        db = await Database.open(address, pool_size=_FEW_CONNECTIONS)
        stack.push_async_callback(db.close)
        await check_version(db)
        base = await _open_base(stack, settings, db, "")
        opened = await open_store(base, UploadOriginals(db))
        stack.push_async_callback(opened.store.close)
        sides = sides_of(opened.files, telling=opened.telling)
        runs = classification_jobs.RUN
        yield LibraryReconcile(base, opened.store, runs, sides, opened.files)


async def _open_database(
    stack: AsyncExitStack, settings: Settings, url: str, *, worker: bool
) -> Database:
    address = await survey(url, settings.database_direct)
    await migrate(address.direct)
    beside = BUS_CONNECTIONS + (WORKER_CONNECTIONS if worker else 0)
    db = await Database.open(address, pool_size=settings.database_pool_size - beside)
    stack.push_async_callback(db.close)
    await same_database(db)
    return db


async def _open_base(stack: AsyncExitStack, settings: Settings, db: Database, node: str) -> Base:
    """`node` names the ingest directory, whose files only processes beside it can see."""
    clock, ids = SystemClock(), RandomIds()
    process = ids.short("proc")
    bus = Bus(db, process)
    await bus.start()
    stack.push_async_callback(bus.stop)
    queue = Queue(db, bus, clock, owner=process, node=node, kinds=KINDS)
    return Base(settings, clock, ids, Metrics(), db, bus, queue, queue.units)


async def _open_features(
    stack: AsyncExitStack,
    base: Base,
    opened: OpenedStore,
    directory: IngestDirectory,
    secret: str,
    webhooks: WebhookAddresses,
    sandbox: Sandbox,
) -> tuple[Sequence[Feature], ObjectStore]:
    store = opened.store
    classifier = build_classifier(base.settings, base.clock, sandbox)
    stack.push_async_callback(classifier.close)
    await classifier.open()  # one that cannot work stops the start
    classification = open_classification(base, store, classifier, opened.files)
    library = open_library(
        base, store, classification_jobs.RUN, classification.originals.remember, opened.files,
        telling=opened.telling,
    )  # fmt: skip
    submissions = open_submissions(base, store, sandbox, classifier)
    deliver = Deliver(base.db, reactions(library.projection, submissions.deleted_sources))
    deleted = submissions.deleted_sources.on_artifact_deleted
    features = (
        open_objects(base, opened, deliver.handle),
        open_accounts(base, secret),
        open_quotas(base),
        open_ingest(base, directory, store, deliver.remember, library.arrival.arrive),
        library,
        open_thumbnails(base, store, sandbox),
        classification,
        open_generations(base, store, sandbox, webhooks, when_artifact_deleted=deleted),
        submissions,
        open_admin(base, library.reconcile),
    )
    for feature in features:
        if feature.close:
            stack.push_async_callback(feature.close)
    return features, store


async def _start_worker(stack: AsyncExitStack, base: Base, features: Sequence[Feature]) -> Worker:
    handlers = [handler for feature in features for handler in feature.handlers]
    worker = Worker(base.queue, handlers, schedules(base.settings))
    await worker.start()
    stack.push_async_callback(worker.stop, base.settings.shutdown_seconds)
    return worker


def _registry(
    stack: AsyncExitStack,
    base: Base,
    features: Sequence[Feature],
    store: ObjectStore,
    secret: str,
) -> Registry:
    limits = base.settings
    seats = Seats(limits.max_sockets_per_caller, limits.max_sockets_per_organization)
    reading = _open_reading(stack, base)
    hub = Hub(reading, base.bus, MESSAGES, seats)
    stack.callback(hub.close)
    registry = Registry(
        base.settings, base.db, reading, base.metrics, base.bus, base.units, base.queue, hub,
        MESSAGES, Cursors(secret), Pages(Assets()),
        *(service for feature in features for service in feature.services),
    )  # fmt: skip
    registry.add(base.clock, as_type=Clock)
    registry.add(base.ids, as_type=Ids)
    registry.add(store, as_type=ObjectStore)
    return registry


def _open_reading(stack: AsyncExitStack, base: Base) -> FreshReads:
    address = base.settings.database_read_url
    url = None if address is None else address.get_secret_value()
    reading = FreshReads.of(base.db, url, base.settings.database_pool_size, base.metrics)
    stack.push_async_callback(reading.close)
    return reading


def _configured(settings: Settings) -> Callable[[], str]:
    return lambda: settings.public_url or f"http://{settings.host}:{settings.port}"
