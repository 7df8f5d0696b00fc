"""The files of uploads as what a bucket is mended from: a late write of ours may take away, or
replace with something older, what the index says a name holds.

Guarantees: the index is asked first, so nothing is put back that was replaced or deleted; the write
has a ticket like any other and is settled with those that made it necessary. A file that is gone
makes a dead letter, and from then on the bucket is believed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.files import ChecksumMismatch
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, Verdict
from safelight.ingest import repo
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OffloadPayload
from safelight.ingest.lifecycle import Image
from safelight.ingest.offload import ensure_directory, object_facts
from safelight.objects import repo as objects
from safelight.objects.events import Action
from safelight.objects.keys import object_key
from safelight.objects.reconcile import Standing
from safelight.objects.store import Landed, ObjectStore

LOST = Failure(
    "ORIGINAL_LOST",
    "A late write replaced or removed this original in the bucket, and its received file is gone. "
    "What the bucket holds now counts; upload the image again.",
)


class UploadOriginals:
    """What settling asks of ingest (objects/reconcile.py)."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def standing(self, images: Sequence[str]) -> Mapping[str, Standing]:
        return await repo.standings(self._db, images)

    async def put_back(self, image: str) -> None:
        await repo.put_back(self._db, image)


class Restoration:
    def __init__(self, units: Units, store: ObjectStore, directory: IngestDirectory) -> None:
        self._db = units.db
        self._store = store
        self._directory = directory

    async def handle(self, job: Job[OffloadPayload]) -> Verdict:
        image = await repo.find(self._db, job.payload.imageId)
        if image is None:
            return Done()
        path = self._directory.path / Path(image.temp_path).name
        try:
            return await self._put(image, path)
        except ChecksumMismatch:
            pass
        except FileNotFoundError:
            if path.exists():
                raise
            ensure_directory(self._directory)
        await repo.forget_file(self._db, image.id)
        return Dead(LOST)

    async def _put(self, image: Image, path: Path) -> Verdict:
        key = object_key(image.organization, image.name)

        async def write(landed: Landed) -> Verdict:
            await objects.mended(
                self._db, Action.CREATED, key, image.id, landed.etag, landed.ticket
            )
            return Done()

        async def moved_on() -> Verdict | None:
            return None if await repo.is_object(self._db, image) else Done()

        await reach("ingest.restore")
        return await self._store.put_with(key, path, object_facts(image), write, moved_on)
