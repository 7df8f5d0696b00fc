"""An upload from first byte to answer: receive, record, or leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, count, islice
from typing import Any

import structlog

from safelight.errors import NameTaken, SafelightError, Unavailable
from safelight.infra.activity import Units
from safelight.infra.db import AWAY, STATEMENT_LOST, Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Ids, ImageId
from safelight.infra.metrics import Metrics
from safelight.ingest import repo
from safelight.ingest.contract import DatabaseError, OutcomeUnknown
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.receive import Incoming, Received, Receiver, UploadLimits
from safelight.objects.keys import clean_name, numbered

_NAMES_AT_A_TIME = 50
_ANSWER_LOST: tuple[type[Exception], ...] = (repo.ConnectionLost, *STATEMENT_LOST)
_LOOK_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)


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
    ) -> None:
        self._units = units
        self._db = units.db
        self.directory = directory
        self.limits = limits
        self._clock = units.clock
        self._ids = ids
        self._metrics = metrics
        self._executor = ThreadPoolExecutor(8, thread_name_prefix="ingest")

    async def close(self) -> None:
        self._executor.shutdown()

    async def accept(self, upload: UploadRequest, stream: AsyncIterator[bytes]) -> Image:
        started = self._clock.monotonic()
        image_id = self._ids.image(self._clock.now_ms())
        incoming = Incoming(self.directory, image_id)
        try:
            received = await Receiver(incoming, self.limits, self._executor).receive(
                upload.content_type, stream, upload.checksum
            )
            image = await self._record(upload, image_id, received)
        except OutcomeUnknown:
            raise  # the row may exist: the file stays, and the sweep decides
        except BaseException:
            await self._discard(incoming)
            raise
        self._units.announce(image.organization, OFFLOAD)
        self._account(image, started)
        return image

    async def _record(self, upload: UploadRequest, image_id: ImageId, received: Received) -> Image:
        image = self._image(upload, image_id, received)
        try:
            if upload.on_conflict is OnConflict.REPLACE:
                async with self._db.connection() as connection:
                    await self._write(connection, image, upload, received.file_name)
            else:
                image = await self._record_under_free_name(upload, image, received.file_name)
            await reach("ingest.recorded")
        except repo.ConnectionLost as lost:
            await self._find_out_if_recorded(image_id, lost.backend)
        except Unavailable as error:
            raise DatabaseError from error
        return image

    async def _record_under_free_name(
        self, upload: UploadRequest, image: Image, file_name: str
    ) -> Image:
        backend = None
        try:
            async with self._units.open(image.organization) as unit:
                backend = unit.connection.get_server_pid()
                await repo.lock_names(unit.connection, image.organization)
                name = await _free_name(unit.connection, image.organization, image.name)
                if name != image.name and upload.on_conflict is OnConflict.REFUSE:
                    raise NameTaken(f"There is already an image called {image.name}.")
                image = replace(image, name=name)
                await self._write(unit.connection, image, upload, file_name)
        except _ANSWER_LOST as error:
            if backend is None:
                raise DatabaseError from error
            await self._find_out_if_recorded(image.id, backend)
        return image

    async def _write(
        self, connection: Connection, image: Image, upload: UploadRequest, file_name: str
    ) -> None:
        lines = _lines(image, upload, file_name)
        await repo.record_upload(connection, image, self.directory.node, lines)

    async def _find_out_if_recorded(self, image_id: ImageId, backend: int) -> None:
        """COMMIT's answer was lost. Recorded: carry on. Not recorded: an error that cleans up."""
        for pause in _LOOK_AGAIN_SECONDS:
            try:
                recorded = await repo.was_recorded(self._db, image_id, backend)
            except AWAY:
                await asyncio.sleep(pause)
                continue
            if recorded:
                return
            raise DatabaseError
        raise OutcomeUnknown

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
        work = asyncio.get_running_loop().run_in_executor(self._executor, incoming.discard)
        try:
            await asyncio.shield(work)
        except OSError as error:
            structlog.get_logger().warning("a temporary file stays for the sweep", error=str(error))

    def _account(self, image: Image, started: float) -> None:
        self._metrics.uploads.labels(image.status).inc()
        self._metrics.upload_bytes.inc(image.size_bytes)
        structlog.get_logger().info(
            "[Upload]",
            imageId=image.id,
            tempPath=image.temp_path,
            checksum=image.checksum,
            transition=f"{ImageStatus.UPLOADED} → {image.status}",
            status=image.status,
            sizeBytes=image.size_bytes,
            durationMs=round((self._clock.monotonic() - started) * 1000, 1),
        )

    def account_failure(self, error: SafelightError, cause: BaseException | None) -> None:
        self._metrics.uploads.labels(error.code).inc()
        structlog.get_logger().warning(
            "[Upload Error]", code=error.code, error=error.message, cause=repr(cause or error)
        )


async def _free_name(connection: Connection, organization: str, name: str) -> str:
    """The name itself, or the first of `name (2)`, `name (3)`, … that nobody has."""
    candidates = chain((name,), (numbered(name, n) for n in count(2)))
    while True:
        some = list(islice(candidates, _NAMES_AT_A_TIME))
        taken = await repo.taken_names(connection, organization, some)
        for candidate in some:
            if candidate not in taken:
                return candidate


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
