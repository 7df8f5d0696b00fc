"""The composition root: settings in, everything a running process needs out.

Opened in the order things stand on each other, closed in reverse. Nothing else builds services.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from safelight.accounts.first_start import secret_key
from safelight.accounts.services import account_services
from safelight.http.paging import Cursors
from safelight.http.registry import Registry
from safelight.infra.bus import Bus
from safelight.infra.clock import Clock, SystemClock
from safelight.infra.db import Database
from safelight.infra.ids import Ids, RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.migrate import migrate
from safelight.ingest.accept import Ingest
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.receive import Limits
from safelight.ingest.sweep import Sweep
from safelight.live.hub import Hub
from safelight.settings import Settings
from safelight.web.assets import Assets
from safelight.web.rendering import Pages


@asynccontextmanager
async def open_services(
    settings: Settings, database_url: str, *, worker: bool = False
) -> AsyncIterator[Registry]:
    clock, ids, metrics = SystemClock(), RandomIds(), Metrics()
    async with AsyncExitStack() as stack:
        await migrate(database_url)
        db = await Database.open(database_url, pool_size=settings.database_pool_size)
        stack.push_async_callback(db.close)
        secret = await secret_key(db, settings, ids)
        directory = IngestDirectory(settings.ingest_path, ids)
        stack.callback(directory.close)
        bus = Bus(db, ids.short("proc"))
        await bus.start()
        stack.push_async_callback(bus.stop)

        def announce(organization: str) -> None:
            bus.announce("activity", organization)

        ingest = Ingest(db, directory, _limits(settings), clock, ids, metrics, announce)
        stack.callback(ingest.close)
        sweep = Sweep(db, directory, clock, metrics, settings.ingest_ttl_seconds)
        removed = await sweep.at_start()
        if removed:
            structlog.get_logger().info("swept leftovers of an earlier run", files=removed)

        hub = Hub(db, bus)
        stack.enter_context(hub.listening())

        registry = Registry(
            settings, db, metrics, Cursors(secret), ingest, sweep, bus, hub, Pages(Assets()),
            *account_services(db, clock, ids, secret),
        )  # fmt: skip
        registry.add(clock, as_type=Clock)
        registry.add(ids, as_type=Ids)
        yield registry


def _limits(settings: Settings) -> Limits:
    return Limits(settings.max_upload_bytes, settings.max_pixels, settings.accepted_types)
