"""An upload from first byte to answer: receive, record, or leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import structlog

from safelight.errors import NameTaken, RateLimited, SafelightError
from safelight.infra.activity import Units
from safelight.infra.batches import Batches
from safelight.infra.db import AWAY
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Ids, ImageId
from safelight.infra.metrics import Metrics
from safelight.infra.threads import Threads
from safelight.infra.turns import Turns
from safelight.ingest import repo
from safelight.ingest.contract import DatabaseError, OutcomeUnknown
from safelight.ingest.direct.direct import DirectUploads
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OFFLOAD, OffloadPayload
from safelight.ingest.lifecycle import Image, ImageStatus, Recordable, Recording
from safelight.ingest.receive import Incoming, Received, Receiver, UploadLimits
from safelight.objects.keys import clean_name
from safelight.quotas.admit import UploadQuotas

log = structlog.get_logger()

# To whom its job is leased; what came of it, and the job.
RecordUpload = Callable[[str | None], Awaitable[tuple[Recording, int | None]]]
_TURN_SECONDS = 60.0  # for the organization's uploads before this one; it costs a task
_AGAIN_SECONDS = 10
_THREADS = 8
_NAME_SECONDS = 12.0  # as long as a lock is waited for elsewhere (infra/db.py)
_BUSY_SECONDS = 0.05
_LOOK_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
_FIND_OUT_SECONDS = 20.0
_CLOSE_SECONDS = 10.0


class TooManyUnderWay(RateLimited):
    """Too many uploads of your organization are on their way at this moment. Wait for some of them
    to arrive, then try again."""


class OnConflict(StrEnum):
    REPLACE = "replace"
    RENAME = "rename"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """What the request says besides its bytes."""

    organization: str
    content_type: str
    actor: dict[str, str]
    name: str | None = None
    on_conflict: OnConflict = OnConflict.REPLACE
    checksum: str | None = None


class Ingest:
    def __init__(
        self,
        units: Units,
        directory: IngestDirectory,
        limits: UploadLimits,
        ids: Ids,
        metrics: Metrics,
        lease: timedelta,
        remember: Callable[[str, Image], None],
        direct: DirectUploads | None = None,
    ) -> None:
        """`remember` spares whoever brings an image to the store reading its record. `direct` waits
        for it to be there, where that comes before the answer."""
        self._units = units
        self._db = units.db
        self._lease = lease
        self._remember = remember
        self._direct = direct
        self.directory = directory
        self.limits = limits
        self._clock = units.clock
        self._ids = ids
        self._metrics = metrics
        self._threads = Threads(_THREADS, "ingest")
        self._turns = Turns(_THREADS)
        self._under_way: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._recording: set[asyncio.Task[Image]] = set()
        self.quotas = UploadQuotas(units.db, units.clock)
        self._choosing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._records = Batches(self._send)

    async def close(self) -> None:
        if self._recording:
            await asyncio.wait(self._recording, timeout=_CLOSE_SECONDS)
        if self._direct:
            self._direct.close()
        self._threads.close()

    async def accept(self, upload: UploadRequest, stream: AsyncIterator[bytes]) -> Image:
        """Cancelled while the bytes come, it leaves nothing. Cancelled later, it goes on to its
        end, which is near, and tells of it: by then a row may speak of the file."""
        started = self._clock.monotonic()
        image_id = self._ids.image(self._clock.now_ms())
        incoming = Incoming(self.directory, image_id)
        receiver = Receiver(incoming, self.limits, self._threads, self._turns)
        try:
            async with self._place(upload.organization):
                received = await receiver.receive(upload.content_type, stream, upload.checksum)
        except BaseException:
            await self._discard(incoming)
            raise
        recording = asyncio.create_task(self._keep(upload, incoming, received, started))
        self._recording.add(recording)
        recording.add_done_callback(self._recording.discard)
        try:
            return await asyncio.shield(recording)
        except asyncio.CancelledError:
            if recording.cancelled():
                raise
            return await asyncio.shield(recording)

    @asynccontextmanager
    async def _place(self, organization: str) -> AsyncIterator[None]:
        """Bytes on their way fill the disk before any quota has heard of them, so there are not
        too many of one organization. More wait, unread."""
        places = self._under_way.get(organization) or asyncio.Semaphore(self.limits.at_once)
        self._under_way[organization] = places
        try:
            async with asyncio.timeout(_TURN_SECONDS) if places.locked() else nullcontext():
                await places.acquire()
        except TimeoutError:
            raise TooManyUnderWay(retry_after=_AGAIN_SECONDS) from None
        try:
            yield
        finally:
            places.release()

    async def _keep(
        self, upload: UploadRequest, incoming: Incoming, received: Received, started: float
    ) -> Image:
        """Only a definite no takes the file away again."""
        try:
            image = await self._record(upload, incoming.image_id, received)
            self._units.announce(image.organization)
            if self._direct:
                await self._direct.stored(image)
        except OutcomeUnknown:
            raise  # the row may exist: the file stays, and the sweep decides
        except AWAY as error:
            await self._discard(incoming)
            raise DatabaseError from error
        except Exception:
            await self._discard(incoming)
            raise
        self._account(image, started)
        await reach("ingest.recorded")
        return image

    async def _record(self, upload: UploadRequest, image_id: ImageId, received: Received) -> Image:
        image = self._image(upload, image_id, received)
        lines = _lines(image, upload, received.file_name)
        if upload.on_conflict is OnConflict.REPLACE:
            await self._write(image, partial(self._write_together, image, lines))
            return image
        choosing = self._choosing.setdefault(image.organization, asyncio.Lock())
        async with asyncio.timeout(_TURN_SECONDS):
            await choosing.acquire()
        try:
            return await self._record_under_free_name(upload, image, received.file_name)
        finally:
            choosing.release()

    async def _record_under_free_name(
        self, upload: UploadRequest, image: Image, file_name: str
    ) -> Image:
        """One upload of an organization at a time, and none waits while it holds a connection:
        those are everybody's."""
        until = self._clock.monotonic() + _NAME_SECONDS
        wanted, numbered = image.name, upload.on_conflict is OnConflict.RENAME
        while self._clock.monotonic() < until:
            name = await repo.free_name(self._db, image.organization, wanted, numbered=numbered)
            if name is None:
                raise NameTaken(f"There is already an image called {wanted}.")
            image = replace(image, name=name)
            lines = _lines(image, upload, file_name)
            recording = await self._write(image, partial(self._write_unless_taken, image, lines))
            if recording is Recording.RECORDED:
                return image
            if recording is Recording.BUSY:  # with another process of ours, for a moment
                await asyncio.sleep(_BUSY_SECONDS)
        raise DatabaseError("The upload could not be given a name in time. Please try again.")

    async def _write(self, image: Image, record: RecordUpload) -> Recording:
        with self._units.place(OFFLOAD, image.organization) as place:
            try:
                recording, job = await record(place.lessee)
            except repo.ConnectionLost as lost:
                await self._find_out_if_recorded(image.id, lost.backend)
                self._units.announce(image.organization, OFFLOAD)
                return Recording.RECORDED
            if recording is Recording.RECORDED:
                self._remember(image.id, image)
                place.take(job, OffloadPayload(image.id))
            return recording

    async def _write_together(
        self, image: Image, lines: Sequence[Line], lessee: str | None
    ) -> tuple[Recording, int | None]:
        """With what else of the organization is ready."""
        upload = Recordable(image, lines, lessee)
        return Recording.RECORDED, await self._records.add(image.organization, upload)

    async def _send(self, _: str, uploads: Sequence[Recordable]) -> Sequence[int]:
        now, node = self._clock.now_ms(), self.directory.node
        async with self._db.connection() as connection:
            return await repo.record_uploads(connection, uploads, node, now, self._lease)

    async def _write_unless_taken(
        self, image: Image, lines: Sequence[Line], lessee: str | None
    ) -> tuple[Recording, int | None]:
        async with self._db.connection() as connection:
            return await repo.record_upload_unless_taken(
                connection, image, self.directory.node, lines, (lessee, self._lease)
            )

    async def _find_out_if_recorded(self, image_id: ImageId, backend: int) -> None:
        """The answer was lost. Recorded: carry on. Not recorded: an error that cleans up. Neither
        can be said while the database is away, or while the backend lives that was asked."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIND_OUT_SECONDS):
                for pause in _LOOK_AGAIN_SECONDS:
                    recorded = await self._look_if_recorded(image_id, backend)
                    if recorded:
                        return
                    if recorded is not None:
                        raise DatabaseError
                    await asyncio.sleep(pause)
        raise OutcomeUnknown

    async def _look_if_recorded(self, image_id: ImageId, backend: int) -> bool | None:
        try:
            return await repo.was_recorded(self._db, image_id, backend)
        except Exception as error:  # noqa: BLE001 - not knowing is never a no
            structlog.get_logger().warning("cannot tell if it was recorded", error=repr(error))
            return None

    def _image(self, upload: UploadRequest, image_id: ImageId, received: Received) -> Image:
        now = self._clock.now_ms()
        return Image(
            id=image_id,
            organization=upload.organization,
            name=upload.name or clean_name(received.file_name, received.header.extension),
            idempotency_key=self._ids.uuid4(),
            status=ImageStatus.INGESTED,
            temp_path=str(received.path),
            checksum=received.checksum,
            mime_type=received.header.mime_type,
            width=received.header.width,
            height=received.header.height,
            size_bytes=received.size,
            created_at=now,
            updated_at=now,
        )

    async def _discard(self, incoming: Incoming) -> None:
        """Runs to its end even when the request is being cancelled."""
        if not incoming.begun:
            return
        try:
            await self._threads.run(incoming.discard)
        except OSError as error:
            structlog.get_logger().warning("a temporary file stays for the sweep", error=str(error))

    def _account(self, image: Image, started: float) -> None:
        self._metrics.uploads.labels(image.status).inc()
        self._metrics.upload_bytes.inc(image.size_bytes)
        log.info(
            "[Upload]",
            imageId=image.id,
            tempPath=image.temp_path,
            checksum=image.checksum,
            transition=f"{ImageStatus.UPLOADED} → {image.status}",
            status=image.status,
            sizeBytes=image.size_bytes,
            durationMs=round((self._clock.monotonic() - started) * 1000, 1),
        )
        log.info("job enqueued", kind=OFFLOAD.name, imageId=image.id)

    def account_failure(self, error: SafelightError, cause: BaseException | None) -> None:
        self._metrics.uploads.labels(error.code).inc()
        structlog.get_logger().warning(
            "[Upload Error]", code=error.code, error=error.message, cause=repr(cause or error)
        )


def _lines(image: Image, upload: UploadRequest, file_name: str) -> list[Line]:
    """Both moves of the state machine; the second is what the world is told."""
    message = {
        "imageId": image.id,
        "name": image.name,
        "checksum": image.checksum,
        "sizeBytes": image.size_bytes,
    }
    subject = f"image:{image.id}"
    arrived: dict[str, Any] = {"to": ImageStatus.UPLOADED, "actor": upload.actor}
    if upload.name is None and image.name != file_name:
        # ascii() because a file name may hold what a JSON column cannot.
        arrived["reason"] = f"sent as {ascii(file_name)[:300]}, kept as {image.name}"
    return [
        Line(subject, "image_uploaded", arrived),
        Line(
            subject,
            "upload_ingested",
            {"from": ImageStatus.UPLOADED, "to": ImageStatus.INGESTED, **message},
            also=f"upload:{image.name}",
        ),
    ]
