"""SAFELIGHT_INGEST=direct: an upload is answered when its bytes are in the object store, not
before, for machines whose disk goes with them.

The road is the same, and the worker here takes it; the answer waits for its end.

Guarantees
- Whoever has an answer of 201 has the image in the store, whatever becomes of this machine.
- Whoever is told that it was not stored in time has nothing waiting: the image is FAILED, its job
  is gone, its file too. A write that is under way then is nobody's, and is settled like any other
  whose end nobody heard.
- A crash in between leaves a record whose answer was never given. It is stored by the next life on
  the same disk, or fails when the machine is given up.
"""

import asyncio
from contextlib import suppress

import structlog

from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import AWAY
from safelight.infra.history import Line
from safelight.infra.injected import ImageId
from safelight.infra.queue.jobs import ACTIVITY, Failure
from safelight.ingest import repo
from safelight.ingest.contract import NotStored, OutcomeUnknown
from safelight.ingest.direct import repo as direct
from safelight.ingest.lifecycle import Image, ImageStatus

WAIT_SECONDS = 20.0  # less than clients and proxies wait for an answer
_LOOK_SECONDS = 1.0
_TOO_LATE = Failure("STORAGE_ERROR", str(NotStored.__doc__))


class DirectUploads:
    """Of one process. All that wait are looked after together."""

    def __init__(self, units: Units, bus: Bus, seconds: float = WAIT_SECONDS) -> None:
        self._units = units
        self._seconds = seconds
        self._waiting: dict[ImageId, asyncio.Future[ImageStatus]] = {}
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._unsubscribe = bus.subscribe(ACTIVITY, lambda _: self._news.set())

    def close(self) -> None:
        self._unsubscribe()
        if self._looking:
            self._looking.cancel()

    async def stored(self, image: Image) -> None:
        """Returns once it is. Raises when it never will be."""
        end: asyncio.Future[ImageStatus] = asyncio.get_running_loop().create_future()
        self._waiting[image.id] = end
        self._news.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        status = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    status = await end
        finally:
            self._waiting.pop(image.id, None)
        if status is None:
            status = await self._withdraw(image)
        if status is not ImageStatus.STORED:
            raise NotStored

    async def _look(self) -> None:
        """As long as somebody waits: at every news, and now and then without any."""
        while self._waiting:
            self._news.clear()
            try:
                found = await repo.statuses(self._units.db, list(self._waiting))
            except AWAY:
                found = {}
            for image, status in found.items():
                end = self._waiting.get(image)
                if status.over and end is not None and not end.done():
                    end.set_result(status)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()

    async def _withdraw(self, image: Image) -> ImageStatus | None:
        """What has become of it, if it was stored at the last moment."""
        facts = {"from": ImageStatus.INGESTED, "to": ImageStatus.FAILED}
        told = {**facts, "error": _TOO_LATE.to_json(), "imageId": image.id, "name": image.name}
        line = Line(f"image:{image.id}", "upload_failed", told, also=f"upload:{image.name}")
        try:
            async with self._units.open(image.organization) as unit:
                status = await direct.withdraw(unit.connection, image, unit.now)
                if status is ImageStatus.FAILED:
                    unit.tell(line)
        except AWAY as error:
            raise OutcomeUnknown from error
        structlog.get_logger().warning("upload.not_stored_in_time", imageId=image.id, now=status)
        return status
