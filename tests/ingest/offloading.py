"""Images waiting for storage, and a worker's hands to bring them there one step at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from objects.stores import Local, Watch, digest, settle
from safelight.infra.activity import Units
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.infra.history import Line
from safelight.infra.injected import RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Dead, Done, Job, JobId, Retry, Verdict
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.ingest import jobs, repo
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OffloadPayload
from safelight.ingest.lifecycle import Image, ImageStatus, Recordable
from safelight.ingest.offload import Offload
from safelight.ingest.put_back import Restoration, UploadOriginals
from safelight.ingest.services import open_ingest
from safelight.library.deletion import UploadDeletion
from safelight.library.project import Deliver
from safelight.objects import jobs as objects
from safelight.objects import repo as objects_repo
from safelight.objects.events import Action, ObjectEvent
from safelight.objects.services import OpenedStore, open_objects
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.settings import load
from safelight.testing.waiting import until

ACTOR = {"type": "user", "name": "ada"}
_times = count(1_700_000_000_000)


@dataclass
class Yard:
    db: Database
    root: Path
    clock: Watch = field(default_factory=Watch)
    store: ObjectStore | None = None
    lease: float = 10.0

    def __post_init__(self) -> None:
        self.ids = RandomIds()
        self.directory = IngestDirectory(self.root / "ingest", self.ids)
        if self.store is None:
            self.store = Local(self.db, self.root / "blobs", self.clock).store
        kinds = (*jobs.KINDS, *objects.KINDS)
        self.bus = Bus(self.db, "yard")
        self.queue = Queue(
            self.db, self.bus, self.clock, owner=self.ids.short("yard"), node=self.directory.node,
            kinds=kinds, lease=self.lease,
        )  # fmt: skip
        self.units = self.queue.units
        self.deliver = Deliver(self.db, dict.fromkeys(Action, (self._react,)))
        self.offload = Offload(
            self.units, self.store, self.directory, self.queue, self.deliver.remember, Metrics()
        )
        self.buried: list[Dead] = []
        self.put_back = Restoration(self.units, self.store, self.directory)
        self.deletion = UploadDeletion(self.store, Units(self.db, self.bus, self.clock))

    async def _react(self, event: ObjectEvent, job: Job[objects.DeliverPayload]) -> Verdict:
        """In the library's place: ends the delivery and does no more."""
        async with self.units.open(job.organization) as unit:
            await objects_repo.delivered(unit.connection, event.id, unit.now)
            unit.ends(job)
        return Done(already=True)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Worker]:
        """A worker that does it all, delivery included."""
        assert self.store
        base = Base(
            load({"data_dir": self.root}), self.clock, self.ids, Metrics(), self.db, self.bus,
            self.queue, self.units,
        )  # fmt: skip
        features = (
            open_ingest(base, self.directory, self.store, self.deliver.remember),
            open_objects(base, OpenedStore(self.store, {}), self.deliver.handle),
        )
        worker = Worker(self.queue, [one for feature in features for one in feature.handlers])
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def close(self) -> None:
        assert self.store
        self.directory.close()
        await self.store.close()

    async def receive(
        self,
        name: str = "cat.jpg",
        content: bytes = b"meow",
        *,
        at: int | None = None,
        **fields: Any,
    ) -> Image:
        """What an accepted upload leaves: file, row, history and job."""
        at = next(_times) if at is None else at
        image_id = fields.pop("id", None) or self.ids.image(at)
        path = self.directory.path / f"{image_id}.jpg"
        path.write_bytes(content)
        image = Image(
            id=image_id, organization="acme", name=name, idempotency_key=self.ids.uuid4(),
            status=ImageStatus.INGESTED, temp_path=str(path), checksum=digest(content),
            mime_type="image/jpeg", width=3, height=2, size_bytes=len(content),
            created_at=at, updated_at=at,
        )  # fmt: skip
        async with self.db.connection() as connection:
            upload = Recordable(image, [Line("test", "received")])
            await repo.record_uploads(connection, [upload], self.directory.node, at)
        return image

    async def claim(self, image: Image) -> Job[OffloadPayload]:
        """Takes the image's job as a worker would, from whoever has it."""
        job = await self._claim("ingest.offload", image.id)
        assert job
        return job

    async def _claim(self, kind: str, key: str | None = None) -> Job[OffloadPayload] | None:
        row = await self.db.fetchrow(
            "UPDATE jobs SET status = 'running', owner = $4, claim = claim + 1, "
            "attempts = attempts + 1, lease_until = now() + $3 "
            "WHERE kind = $1 AND key = coalesce($2, key) AND status <> 'dead' RETURNING *",
            kind,
            key,
            timedelta(seconds=10),
            self.queue.owner,
        )
        if row is None:
            return None
        [known] = [known for known in jobs.KINDS if known.name == kind]
        return Job(JobId(row["id"]), known, "acme", row["payload"], row["claim"], row["attempts"])

    async def bring(self, image: Image) -> Verdict:
        return await self.offload.handle(await self.claim(image))

    async def settle(self) -> None:
        """Long after the last request, with the jobs that it makes necessary, until it is over."""
        assert self.store
        for _ in range(4):
            await settle(self.units, self.store, UploadOriginals(self.db))
            while job := await self._claim("ingest.put_back"):
                outcome = await self.put_back.handle(job)
                assert not isinstance(outcome, Retry)
                if isinstance(outcome, Dead):
                    self.buried.append(outcome)
                await self.db.execute("DELETE FROM jobs WHERE id = $1", job.id)

    async def delete(self, name: str = "cat.jpg") -> None:
        await self.deletion.request("acme", name, ACTOR)

    async def status(self, image: Image) -> ImageStatus:
        found = await repo.find(self.db, image.id)
        assert found
        return found.status

    async def content(self, name: str = "cat.jpg") -> bytes | None:
        assert self.store
        try:
            return await joined((await self.store.get(f"acme/{name}")).chunks)
        except NoSuchObject:
            return None

    async def history(self, subject: str) -> list[dict[str, Any]]:
        rows = await self.db.fetch(
            "SELECT type, data FROM activity WHERE $1 IN (subject, also) ORDER BY seq", subject
        )
        return [{"type": row["type"], **row["data"]} for row in rows]

    async def idle(self) -> None:
        """Waits until no job is left."""

        async def none_left() -> bool:
            return not await self.jobs_left()

        await until(none_left, 30)

    async def jobs_left(self) -> list[str]:
        rows = await self.db.fetch("SELECT kind FROM jobs ORDER BY id")
        return [row["kind"] for row in rows]
