"""Submitting an image for publication, and where such images come from.

What was submitted stays what it is: its bytes get a key of their own, `submissions/{id}`. In the
built-in store that is one more row for the same file, in a bucket a copy. Every check and the
published rendition read that key and nothing else; replacing or deleting the source changes nothing
there. The submission's own row, its history and its job are written in the same unit of work.

Gap: with a bucket, a crash between the copy and that unit leaves an object nobody refers to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from safelight.errors import Conflict, InvalidRequest, NotFound, NotReady
from safelight.generations import repo as generations
from safelight.generations.artifacts import repo as artifacts
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Ids
from safelight.ingest import repo as ingest
from safelight.objects import repo as objects
from safelight.objects.keys import InvalidKey, InvalidName, object_key
from safelight.objects.store import Facts, Landed, NoSuchObject, ObjectStore
from safelight.quotas.admit import look, order
from safelight.quotas.lifecycle import Meter
from safelight.submissions import repo
from safelight.submissions.jobs import PROCESS, SubmissionPayload
from safelight.submissions.lifecycle import Submission, SubmissionState, pinned_key
from safelight.submissions.moves import received

_TRIES = 3


class UnknownSource(NotFound):
    """There is no such image to submit."""


class NotAPicture(InvalidRequest):
    """Only still pictures can be submitted, not videos or other files."""


class Replaced(Conflict):
    """The image is being replaced at this very moment. Try again."""


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    organization: str
    kind: str
    source_id: str
    title: str | None
    actor: dict[str, str]


@dataclass(frozen=True, slots=True)
class SourceObject:
    """An object as it is now. `marker` tells it from what may have its name later; `etag` from what
    may be there a moment later."""

    key: str
    etag: str
    marker: str
    time: int
    content_type: str
    size: int


class Source(Protocol):
    """Where submitted images come from. A new one is a class, and one line in `sources`."""

    @property
    def kind(self) -> str:
        """Its name in `{"source": {kind: id}}`, and the type of its subject in history."""

    async def find(self, organization: str, source_id: str) -> SourceObject:
        """Raises `UnknownSource`, `NotReady` for one that is not stored yet, or `NotAPicture`."""


@dataclass(frozen=True, slots=True)
class UploadSource:
    """An image of the library, by its name."""

    db: Database
    store: ObjectStore
    kind: str = "upload"

    async def find(self, organization: str, source_id: str) -> SourceObject:
        try:
            key = object_key(organization, source_id)
            info = await self.store.head(key)
        except (InvalidName, InvalidKey) as error:
            raise UnknownSource from error
        except NoSuchObject as error:
            if await ingest.is_under_way(self.db, organization, source_id):
                raise NotReady("This image is still being stored; try again soon.") from error
            raise UnknownSource(f"There is no image called {source_id}.") from error
        _only_pictures(info.content_type)
        marker = info.metadata.get("idempotencyKey") or f"etag:{info.etag}"
        return SourceObject(key, info.etag, marker, info.event_time, info.content_type, info.size)


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    """Something that was generated, by its id."""

    db: Database
    store: ObjectStore
    kind: str = "artifact"

    async def find(self, organization: str, source_id: str) -> SourceObject:
        artifact = await artifacts.find(self.db, source_id)
        if artifact is None or artifact.organization != organization:
            if await generations.is_under_way(self.db, organization, source_id):
                raise NotReady("This artifact is still being made; try again soon.")
            raise UnknownSource("There is no such artifact.")
        _only_pictures(artifact.content_type)
        key = f"artifacts/{source_id}"
        try:
            info = await self.store.head(key)
        except NoSuchObject as error:
            raise UnknownSource("There is no such artifact.") from error
        kind = artifact.content_type
        return SourceObject(key, info.etag, source_id, info.event_time, kind, info.size)


def sources(db: Database, store: ObjectStore) -> Mapping[str, Source]:
    known: tuple[Source, ...] = (
        UploadSource(db, store),
        ArtifactSource(db, store),
    )
    return {source.kind: source for source in known}


def _only_pictures(content_type: str) -> None:
    """What only claims to be a picture is for the scan to find out."""
    if content_type.startswith(("video/", "audio/", "text/")):
        raise NotAPicture


@dataclass(frozen=True, slots=True)
class Submit:
    units: Units
    store: ObjectStore
    ids: Ids
    sources: Mapping[str, Source]

    async def submit(self, wanted: SubmissionRequest) -> Submission:
        source = self.sources.get(wanted.kind)
        if source is None:
            raise InvalidRequest(f"source: choose one of {', '.join(self.sources)}.")
        now = self.units.clock.now_ms()
        # Before bytes travel. Room is asked for once: what is pinned and published counts, and is
        # kept even beyond the limit.
        await look(self.units.db, wanted.organization, now, Meter.SUBMISSIONS, Meter.STORED_BYTES)
        for _ in range(_TRIES):
            found = await source.find(wanted.organization, wanted.source_id)
            try:
                return await self._pin(wanted, found, self.ids.short("sub"))
            except Replaced:
                continue  # look again: something else has the name by now
        raise Replaced

    async def _pin(self, wanted: SubmissionRequest, found: SourceObject, new: str) -> Submission:
        """Raises `Replaced` when the object is not the one that was found any more."""
        async with self.units.open(wanted.organization) as unit:
            checksum = await objects.share(
                unit.connection, found.key, found.etag, pinned_key(new), unit.now
            )
            if checksum is not None:
                return await _record(unit, wanted, found, new, checksum)
        return await self._copy(wanted, found, new)

    async def _copy(self, wanted: SubmissionRequest, found: SourceObject, new: str) -> Submission:
        content = await self.store.get(found.key)
        if content.info.etag != found.etag:
            raise Replaced
        key, facts = pinned_key(new), Facts(found.content_type)
        # Only in the index: what a crash leaves in the bucket is nobody's, and counts for nobody.
        counted = replace(facts, metadata={"organizationId": wanted.organization})

        async def write(landed: Landed) -> Submission:
            async with self.units.open(wanted.organization) as unit:
                await objects.put(unit.connection, key, landed, counted, unit.now)
                return await _record(unit, wanted, found, new, landed.sha256)

        await reach("submissions.copy")
        return await self.store.put_with(key, content.chunks, facts, write)


async def _record(
    unit: Unit, wanted: SubmissionRequest, found: SourceObject, new: str, checksum: str
) -> Submission:
    submission = Submission(
        id=new,
        organization=wanted.organization,
        title=wanted.title,
        submitted_by=wanted.actor,
        source_kind=wanted.kind,
        source_id=wanted.source_id,
        source_marker=found.marker,
        source_time=found.time,
        source_current=True,
        checksum=checksum,
        content_type=found.content_type,
        size_bytes=found.size,
        state=SubmissionState.RECEIVED,
        created_at=unit.now,
        updated_at=unit.now,
    )
    await repo.add(unit.connection, submission)
    await unit.enqueue(PROCESS, SubmissionPayload(new), key=new)
    unit.tell(received(submission))
    await order(unit, Meter.SUBMISSIONS)
    return submission
