"""Everything the library is made of, on a real database, with nothing running by itself."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
from obstore.store import MemoryStore

from library.dated import DatedStore
from library.scripted import Scripted
from objects.stores import Bucket, Local, Watch
from safelight.classification import jobs as classification
from safelight.classification.services import open_classification
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.codecs import prepare
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.queue import Queue
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OFFLOAD, PUT_BACK
from safelight.ingest.offload import Offload
from safelight.ingest.put_back import Restoration
from safelight.library import jobs as library_jobs
from safelight.library.project import Deliver
from safelight.library.retention.retention import Retention
from safelight.library.services import open_library
from safelight.objects import jobs as objects
from safelight.objects.bucket import parse_url
from safelight.objects.events import Action
from safelight.objects.local import LocalStore
from safelight.objects.notifications.intake import Intake
from safelight.objects.store import BlobFiles, ObjectStore
from safelight.objects.upkeep import Scrub
from safelight.settings import load

START = 1_800_000_000_000


class Services:
    """`telling` exchanges the built-in store for a bucket (obstore's, in memory) whose notifications,
    and not our own events, tell of what happens in it; `bucket` for one that tells nothing, and
    `there` says of which server it is instead. `short`: uploads take the short road where it is
    open."""

    def __init__(
        self,
        db: Database,
        root: Path,
        *,
        telling: bool = False,
        bucket: bool = False,
        remote: bool = False,
        short: bool = False,
        there: Bucket | None = None,
    ) -> None:
        self.db = db
        self.telling = telling
        self.short = short
        self._own: Any = None
        self.clock = Watch(START)
        self.directory = IngestDirectory(root / "ingest", RandomIds())
        self.classifier = Scripted(remote=remote)
        self.there = there
        self.bucket: Any = parse_url(there.url()).open(repeat=True) if there else MemoryStore()
        self.writing: Any = parse_url(there.url()).open(repeat=False) if there else self.bucket
        self.store = self._open_store(root, bucket=bucket or telling)
        self.bus = Bus(db, "world")
        self.bus._company_until = 0.0  # nobody listens
        kinds = (OFFLOAD, PUT_BACK, *objects.KINDS, *library_jobs.KINDS, *classification.KINDS)
        self.queue = Queue(
            db, self.bus, self.clock, owner="world", node=self.directory.node, kinds=kinds
        )
        base = Base(
            load(), self.clock, RandomIds(), Metrics(), db, self.bus, self.queue,
            self.queue.units,
        )  # fmt: skip
        files = self._files(base)
        library = open_library(base, self.store, classification.RUN, files=files, telling=telling)
        self.deletion, self.reconcile = library.deletion, library.reconcile
        self.reconcile._young_ms = -1  # nothing is too young
        self.retention = Retention(base, self.store)
        self.metrics = base.metrics
        created, deleted = library.projection.on_created, library.projection.on_deleted
        self.deliver = Deliver(base.db, {Action.CREATED: (created,), Action.DELETED: (deleted,)})
        self.arrival = library.arrival
        self.offload = Offload(
            base.units, self.store, self.directory, self.queue, self.deliver.remember, base.metrics,
            self.arrival.arrive if short else None,
        )  # fmt: skip
        self.restoration = Restoration(base.units, self.store, self.directory)
        self.intake = Intake(base.units)
        runs = open_classification(base, self.store, self.classifier, files)
        self.originals = runs.originals
        self.handlers = self._handlers(*runs.handlers)

    def _files(self, base: Base) -> BlobFiles | None:
        if not isinstance(self.store, LocalStore):
            return None
        scrub = Scrub(base.units, self.store._blobs, base.metrics)
        blobs = self.store._blobs
        return BlobFiles(
            self.store.open_blob,
            scrub.recheck,
            lambda sizes: asyncio.to_thread(blobs.lacking, sizes),
        )

    def _open_store(self, root: Path, *, bucket: bool) -> ObjectStore:
        if not bucket:
            return Local(self.db, root / "blobs", self.clock).store
        return DatedStore(
            self.db, self.bucket, self.writing, self.clock, RandomIds(), root / "spool",
            telling=self.telling, where="memory",
        )  # fmt: skip

    def _handlers(self, *others: Handler[Any]) -> dict[str, Handler[Any]]:
        handlers: tuple[Handler[Any], ...] = (
            Handler(OFFLOAD, self.offload.handle),
            Handler(PUT_BACK, self.restoration.handle),
            Handler(objects.REJECTED, self.intake.handle_rejected),
            Handler(objects.DELIVER, self.deliver.handle),
            *others,
        )
        return {handler.kind.name: handler for handler in handlers}

    async def close(self) -> None:
        self.directory.close()
        await self.store.close()
        if self._own is not None:
            self._own.terminate()

    async def own(self) -> Any:
        """A connection for the test's questions: quicker than taking one from the pool each time."""
        if self._own is None:
            self._own = await asyncpg.connect(self.db.url)
            await prepare(self._own)
        return self._own
