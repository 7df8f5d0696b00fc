"""By what a picture is known again: its checksum, and how it looks. Of a submission that is what
tier 1 saw; where tier 1 has not looked, or nobody submitted it, it is looked at here."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safelight.errors import InvalidRequest, NotFound, NotReady
from safelight.infra.scratch import Scratch
from safelight.ingest.receive import storage_error
from safelight.objects.store import DamagedObject, NoSuchObject, ObjectStore
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import Sandbox
from safelight.submissions.lifecycle import Submission, SubmissionState, pinned_key
from safelight.submissions.policies.policy import Looks
from safelight.submissions.submit import Source


class Unrecognisable(InvalidRequest):
    """This file cannot be opened as a picture, so nothing that looks like it could be found. Send a
    whole JPEG, PNG, WebP, GIF, AVIF or HEIC image."""


class NothingToLookAt(NotReady):
    """This submission ended before anybody looked at its picture, and the picture is gone. Upload
    the picture to rule it out, or rule out its checksum."""


# From here on its row has what tier 1 saw. One that was rejected may have ended before, or under a
# version that did not keep its looks.
_LOOKED_AT: Final = frozenset(
    {
        SubmissionState.TIER2_SCANNING,
        SubmissionState.AWAITING_APPROVAL,
        SubmissionState.PUBLISHED,
        SubmissionState.WITHDRAWN,
    }
)


def looked_at(submission: Submission) -> bool:
    """Whether its row says how it looks. If so, and it has no looks, there are none to compare."""
    return bool(submission.looks.all) or submission.state in _LOOKED_AT


@dataclass(frozen=True, slots=True)
class Recognition:
    store: ObjectStore
    sandbox: Sandbox
    bounds: Bounds
    sources: Mapping[str, Source]
    directory: Path  # for what is on its way in

    async def of_submission(self, submission: Submission) -> tuple[str, Looks]:
        """A file that is no picture has a checksum all the same, and no looks; as has one that tier
        1 found something in, once it is gone."""
        if looked_at(submission):
            return submission.checksum, submission.looks
        looks = await self._pinned(submission) or await self._source(submission)
        if looks is None and not submission.findings:
            raise NothingToLookAt
        return submission.checksum, looks or Looks()

    async def _pinned(self, submission: Submission) -> Looks | None:
        try:
            content = await self.store.get(pinned_key(submission.id))
            async with content.source() as source:
                return Looks.of(await self.sandbox.inspect(source, self.bounds))
        except (NoSuchObject, DamagedObject):
            return None

    async def _source(self, submission: Submission) -> Looks | None:
        """Only what was submitted: the name may be another picture's by now."""
        try:
            found = await self.sources[submission.source_kind].find(
                submission.organization, submission.source_id
            )
            content = await self.store.get(found.key)
            async with content.source() as source:
                if await asyncio.to_thread(_checksum, source) != submission.checksum:
                    return None
                return Looks.of(await self.sandbox.inspect(source, self.bounds))
        except (NotFound, NotReady, InvalidRequest, DamagedObject):
            return None

    async def of_source(self, organization: str, kind: str, source_id: str) -> tuple[str, Looks]:
        found = await self.sources[kind].find(organization, source_id)
        content = await self.store.get(found.key)
        async with content.source() as source:
            return await self._of(source)

    async def of_stream(self, pieces: AsyncIterator[bytes]) -> tuple[str, Looks]:
        """Of a file that nobody keeps. However many come at once, no more than a piece of each is
        in memory."""
        with Scratch(self.directory) as file:
            try:
                await file.fill(pieces)
            except OSError as error:
                raise storage_error(error) from error
            return await self._of(file.file.fileno())

    async def _of(self, source: bytes | int) -> tuple[str, Looks]:
        seen = await self.sandbox.inspect(source, self.bounds)
        if seen.decoded == 0:
            raise Unrecognisable
        return await asyncio.to_thread(_checksum, source), Looks.of(seen)


def _checksum(source: bytes | int) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with os.fdopen(os.dup(source), "rb") as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()
