"""From the ingest directory to permanent storage: INGESTED becomes STORED.

Guarantees: does nothing that is already done: the record is read first, or known from having just
been written, and the last statement checks its state. Bytes are hashed again on the way, unless
this process has just received them and the store links their file: then whoever reads it next does
that. The state, its history, the object with its event, the event's delivery job and the end of
this job are one statement, written under the name's lock (where nothing stands in the way, together
with the entry and its run: `arrive`): the newest upload of a name wins, and one whose name was
deleted meanwhile does not bring it back. Such an image is STORED all the same, its history says
what beat it, and its bytes stay until the grace period (with a bucket: the ingest directory's)
ends. A file that is missing or not what was received makes the image FAILED; a directory that is
not the one this worker started with makes the job wait.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import Counter

from safelight.errors import Unavailable
from safelight.infra.activity import Units
from safelight.infra.away import is_away
from safelight.infra.failpoints import reach
from safelight.infra.files import ChecksumMismatch, Measured
from safelight.infra.fresh import Fresh
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict
from safelight.infra.queue.queue import Queue
from safelight.ingest import repo
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OffloadPayload
from safelight.ingest.lifecycle import Image, ImageStatus, OffloadOutcome, OffloadResult
from safelight.objects.events import OURS, Action, ObjectEvent
from safelight.objects.jobs import DELIVER, DeliverPayload
from safelight.objects.keys import object_key
from safelight.objects.store import Facts, Landed, ObjectStore, Place

# Brings an upload whose bytes are safe to the end of its road at once: object, event, entry, run.
# False: not this time, and nothing was changed.
Arrive = Callable[
    [Image, Landed, str | None, Mapping[str, str], Job[OffloadPayload]], Awaitable[bool]
]

MISSING = Failure(
    "FILE_MISSING",
    "The received file was gone before it could be stored. Upload the image again.",
)
CHANGED = Failure(
    "CHECKSUM_ERROR",
    "The received file was damaged before it could be stored. Upload the image again.",
)


class DirectoryAway(Unavailable):
    """The ingest directory is not the one this worker started with. Is its volume mounted?"""


def ensure_directory(directory: IngestDirectory) -> None:
    if not directory.is_there():
        raise DirectoryAway(f"{directory.path} is not the directory it was.")


class Offload:
    def __init__(
        self,
        units: Units,
        store: ObjectStore,
        directory: IngestDirectory,
        queue: Queue,
        remember: Callable[[ObjectEvent], None],
        metrics: Metrics,
        arrive: Arrive | None = None,
    ) -> None:
        self._units = units
        self._db = units.db
        self._store = store
        self._directory = directory
        self._lease = queue.lease
        self._remember = remember
        self._arrive = arrive
        self.fresh: Fresh[str, Image] = Fresh()
        self._clock = units.clock
        self._outcomes = Counter(
            "safelight_offloads_total",
            "Images by what became of them on their way to storage.",
            ("outcome",),
            registry=metrics.registry,
        )

    async def handle(self, job: Job[OffloadPayload]) -> Verdict:
        image_id = job.payload.imageId
        fresh = self.fresh.take(image_id)
        image = fresh or await repo.find(self._db, image_id)
        if image is None or image.status is not ImageStatus.INGESTED:
            return Done()
        try:
            stored = await self._bring(image, job, fresh=fresh is not None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the history tells of it
            if not (is_away(error) and job.waits):  # a wait is told of once, however long it is
                await self._note(image, job, error)
            return Retry(error)
        self._announce(image, stored)
        return job.ended(stored.outcome is not OffloadOutcome.LOST)

    async def _bring(self, image: Image, job: Job[OffloadPayload], *, fresh: bool) -> OffloadResult:
        path = self._directory.path / Path(image.temp_path).name
        facts = object_facts(image)
        if fresh:
            facts = replace(facts, seen=Measured(image.checksum, image.size_bytes))

        async def write(landed: Landed) -> OffloadResult:
            node = landed.node(self._directory.node)
            if self._arrive and await self._arrive(image, landed, node, facts.metadata, job):
                return OffloadResult(OffloadOutcome.STORED)
            return await self._record(image, landed, node, facts.metadata, job)

        async def beaten() -> OffloadResult | None:
            here = Landed(Place.INGEST, "", image.size_bytes, image.checksum)
            stored = await self._record(image, here, None, facts.metadata, job)
            return None if stored.outcome is OffloadOutcome.WANTED else stored

        key = object_key(image.organization, image.name)
        try:
            await reach("ingest.put")
            return await self._store.put_with(key, path, facts, write, beaten)
        except ChecksumMismatch:
            return await self._fail(image, job, CHANGED)
        except FileNotFoundError:
            if path.exists() or self._directory.put_back(path.name):
                raise
            ensure_directory(self._directory)
            return await self._fail(image, job, MISSING)

    async def _record(
        self,
        image: Image,
        landed: Landed,
        node: str | None,
        metadata: Mapping[str, str],
        job: Job[OffloadPayload],
    ) -> OffloadResult:
        """The road that is always open: whatever is to follow from the event has a job."""
        with self._units.place(DELIVER, image.organization) as place:
            stored = await repo.store(
                self._db, image, landed, node, metadata, _endings(image), self._clock.now_ms(), job,
                (place.lessee, self._lease),
            )  # fmt: skip
            if stored.event_id is not None:
                self._remember(_event(image, stored, stored.event_id))
                place.take(stored.job_id, DeliverPayload(stored.event_id, image.name))
        return stored

    async def _fail(
        self, image: Image, job: Job[OffloadPayload], failure: Failure
    ) -> OffloadResult:
        facts = {"from": image.status, "to": ImageStatus.FAILED, "error": failure.to_json()}
        line = _line(image, "upload_failed", facts)
        outcome = await repo.fail(self._db, image, line, self._clock.now_ms(), job)
        structlog.get_logger().error("upload.failed", imageId=image.id, **failure.to_json())
        return OffloadResult(outcome)

    async def _note(self, image: Image, job: Job[OffloadPayload], error: Exception) -> None:
        data = {"attempt": job.attempt, "error": Failure.of(error).to_json()}
        line = Line(f"image:{image.id}", "offload_attempt", data, also=f"upload:{image.name}")
        async with self._units.open(image.organization) as unit:
            unit.tell(line)

    def _announce(self, image: Image, stored: OffloadResult) -> None:
        self._outcomes.labels(stored.outcome).inc()
        if stored.outcome in {OffloadOutcome.LOST, OffloadOutcome.ALREADY_DONE}:
            return
        self._units.announce(image.organization)


def stored_at(image: Image, event_time: int) -> Line:
    """That it is, where nothing else can have become of it."""
    line = _endings(image)[OffloadOutcome.STORED]
    return replace(line, data={**line.data, "eventTime": iso(event_time)})


def _endings(image: Image) -> dict[str, Line]:
    """What is told of either end; the statement adds when it was stored, or what beat it."""
    moved = {"from": image.status, "to": ImageStatus.STORED}
    return {
        OffloadOutcome.STORED: _line(image, "upload_stored", moved),
        OffloadOutcome.BEATEN: _line(image, "image_superseded", moved),
    }


def _line(image: Image, kind: str, facts: dict[str, Any]) -> Line:
    data = {**facts, "imageId": image.id, "name": image.name}
    return Line(f"image:{image.id}", kind, data, also=f"upload:{image.name}")


def object_facts(image: Image) -> Facts:
    metadata = {
        "organizationId": image.organization,
        "name": image.name,
        "idempotencyKey": image.idempotency_key,
        "imageId": image.id,
        "width": str(image.width),
        "height": str(image.height),
    }
    return Facts(image.mime_type, metadata, image.checksum)


def _event(image: Image, stored: OffloadResult, event_id: int) -> ObjectEvent:
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
        metadata=object_facts(image).metadata,
    )
