"""From the ingest directory to permanent storage: INGESTED becomes STORED.

Guarantees: reads the record first and does nothing that is already done; the bytes are hashed again
on the way. The state, its history, the object with its event, the event's delivery job and the end
of this job are one transaction, written under the name's lock: the newest upload of a name wins,
and one whose name was deleted meanwhile does not bring it back. Such an image is STORED all the
same, its history says what beat it, and its bytes stay until the grace period (with a bucket: the
ingest directory's) ends. A file that is missing or not what was received makes the image FAILED; a
directory that is not the one this worker started with makes the job wait.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import Counter

from safelight.infra import activity
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.files import ChecksumMismatch
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict
from safelight.infra.queue.queue import Queue
from safelight.ingest import repo
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.lifecycle import Status, check
from safelight.ingest.repo import Image, Outcome, Stored
from safelight.objects.deliver import Deliver, Delivery
from safelight.objects.events import OURS, Action, ObjectEvent
from safelight.objects.jobs import DELIVER
from safelight.objects.keys import object_key
from safelight.objects.store import Facts, Landed, ObjectStore, Place

MISSING = Failure("FILE_MISSING", "The received file is no longer in the ingest directory.")
CHANGED = Failure("CHECKSUM_ERROR", "The received file is not what it was when it arrived.")


@dataclass(frozen=True, slots=True)
class Offloading:
    """The payload of `ingest.offload`."""

    imageId: str  # noqa: N815 - payloads are JSON that people read


class DirectoryAway(Exception):
    """The ingest directory is not the one this worker started with: a volume is not mounted."""


class Offload:
    def __init__(
        self,
        db: Database,
        store: ObjectStore,
        directory: IngestDirectory,
        queue: Queue,
        deliver: Deliver,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._db = db
        self._store = store
        self._directory = directory
        self._queue = queue
        self._deliver = deliver
        self._clock = clock
        self._outcomes = Counter(
            "safelight_offloads_total",
            "Images by what became of them on their way to storage.",
            ("outcome",),
            registry=metrics.registry,
        )

    async def handle(self, job: Job[Offloading]) -> Verdict:
        image = await repo.find(self._db, job.payload.imageId)
        if image is None or image.status is not Status.INGESTED:
            return Done()
        try:
            stored = await self._bring(image, job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the history tells of it
            await self._note(image, job, error)
            return Retry(error)
        self._tell(image, stored)
        return job.ended(stored.outcome is not Outcome.LOST)

    async def _bring(self, image: Image, job: Job[Offloading]) -> Stored:
        check(image.status, Status.STORED)
        path = self._directory.path / Path(image.temp_path).name
        facts = facts_of(image)

        async def write(connection: Connection, landed: Landed) -> Stored:
            await reach("ingest.store")
            return await repo.store(
                connection,
                image,
                landed,
                facts.metadata,
                _endings(image),
                self._clock.now_ms(),
                job,
                (self._queue.lessee, self._queue.lease),
            )

        async def beaten(connection: Connection) -> Stored | None:
            here = Landed(Place.INGEST, "", image.size_bytes, image.checksum)
            stored = await write(connection, here)
            return None if stored.outcome is Outcome.WANTED else stored

        key = object_key(image.organization, image.name)
        try:
            return await self._store.put_with(key, path, facts, write, beaten)
        except ChecksumMismatch:
            return await self._fail(image, job, CHANGED)
        except FileNotFoundError:
            if path.exists():
                raise
            self._ensure_directory()
            return await self._fail(image, job, MISSING)

    def _ensure_directory(self) -> None:
        try:
            node = (self._directory.path / ".node").read_text().strip()
        except FileNotFoundError:
            node = ""
        if node != self._directory.node:
            raise DirectoryAway(f"{self._directory.path} is not the directory it was.")

    async def _fail(self, image: Image, job: Job[Offloading], failure: Failure) -> Stored:
        check(image.status, Status.FAILED)
        await reach("ingest.fail")
        facts = {"from": image.status, "to": Status.FAILED, "error": failure.to_json()}
        line = _line(image, "image_failed", facts)
        outcome = await repo.fail(self._db, image, line, self._clock.now_ms(), job)
        structlog.get_logger().error("upload.failed", imageId=image.id, **failure.to_json())
        return Stored(outcome)

    async def _note(self, image: Image, job: Job[Offloading], error: Exception) -> None:
        data = {"attempt": job.attempt, "error": Failure.of(error).to_json()}
        entry = Line(f"image:{image.id}", "offload_attempt", data, also=f"upload:{image.name}")
        async with self._db.connection() as connection:
            await reach("ingest.note")
            await activity.append(connection, image.organization, self._clock.now_ms(), entry)

    def _tell(self, image: Image, stored: Stored) -> None:
        """After the commit: the delivery runs here at once, and listeners hear of the news."""
        self._outcomes.labels(stored.outcome).inc()
        if stored.outcome in {Outcome.LOST, Outcome.SETTLED}:
            return
        if stored.event_id is not None:
            self._deliver.remember(_event(image, stored, stored.event_id))
            delivery = Delivery(stored.event_id, image.name)
            self._queue.hand_over(
                DELIVER,
                stored.job_id,
                delivery,
                organization=image.organization,
                lessee=stored.lessee,
            )
        self._queue.bus.announce("activity", image.organization)


def _endings(image: Image) -> dict[str, Line]:
    """What is told of either end; the statement adds when it was stored, or what beat it."""
    moved = {"from": image.status, "to": Status.STORED}
    return {
        Outcome.STORED: _line(image, "upload_stored", moved),
        Outcome.BEATEN: _line(image, "image_superseded", moved),
    }


def _line(image: Image, kind: str, facts: dict[str, Any]) -> Line:
    data = {**facts, "imageId": image.id, "name": image.name}
    return Line(f"image:{image.id}", kind, data, also=f"upload:{image.name}")


def facts_of(image: Image) -> Facts:
    metadata = {
        "organizationId": image.organization,
        "name": image.name,
        "idempotencyKey": image.idempotency_key,
        "imageId": image.id,
        "width": str(image.width),
        "height": str(image.height),
    }
    return Facts(image.mime_type, metadata, image.checksum)


def _event(image: Image, stored: Stored, event_id: int) -> ObjectEvent:
    """As object_announce in SQL has just written it."""
    return ObjectEvent(
        id=event_id,
        source=OURS,
        action=Action.CREATED,
        key=object_key(image.organization, image.name),
        organization=image.organization,
        event_time=stored.event_time or 0,
        sequencer=f"{event_id:016x}",
        etag=stored.etag,
        size=image.size_bytes,
        metadata=facts_of(image).metadata,
    )
