"""The short road: safe bytes become object, event, entry and run in one statement.

It is open where the name is as expected: nothing has it, or an upload with which all is done. There
`order.decide_create` would say `WriteMarker` for our own event, which is the newest there can be.
So that is what is sent, and the statement checks under the name's lock that it is as expected.
Where it is not, or somebody else is at work on it, nothing is changed, and the general road is
taken: the event has a delivery job, and project.py decides from what it finds.

Uploads that are ready together go together; each has an answer of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from safelight.infra.activity import Units, to_json
from safelight.infra.batches import Batches
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Job, JobKind
from safelight.infra.queue.queue import Queue
from safelight.infra.storable import columns
from safelight.ingest.lifecycle import Image
from safelight.ingest.offload import stored_at
from safelight.ingest.repo import STORED_FROM
from safelight.library import repo
from safelight.library.order import Arrived
from safelight.library.project import received, started
from safelight.objects.events import OURS, Action, ObjectEvent
from safelight.objects.keys import object_key, words
from safelight.objects.store import Landed, Place

# Organization, name and marker of an upload; SHA-256 and size of its bytes.
Remember = Callable[[str, str, str, str, int], None]

_FIRST_RUN = 1
_OPEN = {Place.BLOB, Place.BUCKET}  # what a telling bucket holds, its index does not know


def forget(*_: object) -> None:
    """For whoever has no use for it."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """An upload at the beginning of the short road; its run, if it gets that far, is leased to the
    worker here or to nobody."""

    image: Image
    landed: Landed
    node: str | None
    metadata: Mapping[str, str]
    job: Job[Any]
    leased: bool

    def as_row(self, now: int) -> dict[str, Any]:
        """As uploads_arrived in SQL takes it."""
        image = self.image
        upload = {
            "name": image.name,
            "e_tag": self.landed.etag,
            "idempotency_key": image.idempotency_key,
            "image_id": image.id,
            "mime_type": image.mime_type,
            "width": image.width,
            "height": image.height,
            "size_bytes": image.size_bytes,
            "checksum": image.checksum,
        }
        return {
            "image": image.id,
            "name": image.name,
            "marker": image.idempotency_key,
            "createdAt": image.created_at,
            "node": self.node,
            "job": self.job.id,
            "claim": self.job.claim,
            "leased": self.leased,
            "landed": columns(self.landed),
            "metadata": dict(self.metadata),
            "upload": upload,
            "words": words(image.name),
            "lines": to_json(self._lines(now)),
        }

    def _lines(self, now: int) -> list[Line]:
        """What is told if it takes the road: all that the general one tells in the same case."""
        image = self.image
        event = ObjectEvent(
            id=0, source=OURS, action=Action.CREATED, organization=image.organization,
            key=object_key(image.organization, image.name), event_time=now, sequencer=None,
            etag=self.landed.etag, size=image.size_bytes, metadata=self.metadata,
        )  # fmt: skip
        return [
            stored_at(image, now),
            received(image.name, event),
            started(image.name, OURS, image.idempotency_key, _FIRST_RUN),
        ]


class Arrival:
    """`runs` is the kind whose job a new marker enqueues, `remember` is told where the bytes of a
    run are that is about to begin here."""

    def __init__(
        self,
        units: Units,
        queue: Queue,
        runs: JobKind[Any],
        remember: Remember,
    ) -> None:
        self._units = units
        self._queue = queue
        self._runs = runs
        self._remember = remember
        self._batches = Batches(self._send)

    async def arrive(
        self,
        image: Image,
        landed: Landed,
        node: str | None,
        metadata: Mapping[str, str],
        job: Job[Any],
    ) -> bool:
        if landed.place not in _OPEN:
            return False
        with self._units.place(self._runs, image.organization) as place:
            leased = place.lessee is not None
            item = Arriving(image, landed, node, metadata, job, leased)
            arrived = await self._batches.add(image.organization, item)
            if arrived.taken:
                key = image.organization, image.name, image.idempotency_key
                self._remember(*key, landed.sha256, landed.size)
                payload = self._runs.payload(
                    name=image.name, idempotencyKey=image.idempotency_key, run=_FIRST_RUN
                )
                place.take(arrived.job_id, payload)
        return arrived.taken

    async def _send(self, organization: str, items: Sequence[Arriving]) -> list[Arrived]:
        """In the order of their bytes, so that two statements seldom wait for each other in a ring.
        Where they do, over bytes that are replaced, the database ends one, and it goes singly."""
        now, queue = self._units.clock.now_ms(), self._queue
        order = sorted(range(len(items)), key=lambda at: items[at].landed.sha256)
        rows = [items[at].as_row(now) for at in order]
        found = await repo.arrive(
            self._units.db, organization, rows, STORED_FROM, now, queue.owner, queue.lease
        )
        answers = dict(zip(order, found, strict=True))
        return [answers[at] for at in range(len(items))]
