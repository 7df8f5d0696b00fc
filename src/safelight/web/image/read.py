"""What one image's page needs, read from the features that know it."""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.approvals import repo as approvals
from safelight.approvals.lifecycle import Approval
from safelight.classification.jobs import RUN
from safelight.classification.similar.similar import Similar
from safelight.errors import NotFound, NotReady, Unavailable
from safelight.infra import activity
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.history import Activity
from safelight.infra.queue.jobs import DeadLetter
from safelight.infra.queue.queue import Queue
from safelight.ingest import repo as ingest
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.library import repo as library
from safelight.library.entry import Entry
from safelight.library.lists import repo as lists
from safelight.library.thumbnails import repo as thumbnails
from safelight.objects.jobs import DELIVER
from safelight.submissions import repo as submissions
from safelight.submissions.lifecycle import Submission
from safelight.web.gallery.card import GalleryFilter
from safelight.web.image.shown import FoundImage, RenditionRow, address, renditions, thumbnail

LINES = 100
ALIKE = 12
_LARGE = 1280
_MOST_SUBMISSIONS = 20


@dataclass(frozen=True, slots=True)
class ShownSubmission:
    submission: Submission
    approval: Approval | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """`picture` is what its page shows first."""

    name: str
    address: str
    picture: str | None


@dataclass(frozen=True, slots=True)
class OneImage:
    """Reads of one organization's images."""

    db: Database
    organization: str

    async def by_id(self, image_id: str) -> FoundImage:
        image = await ingest.find(self.db, image_id)
        if image is None or image.organization != self.organization:
            raise NotFound
        return await self._found(image, await library.find(self.db, self.organization, image.name))

    async def by_name(self, name: str) -> FoundImage:
        """What has the name, or had it last."""
        entry = await library.find(self.db, self.organization, name)
        if entry is not None:
            image = await ingest.find(self.db, entry.image_id) if entry.image_id else None
            return FoundImage(name, entry.idempotency_key, image, entry)
        image = await ingest.newest_of(self.db, self.organization, name)
        if image is not None:
            return await self._found(image, None)
        if not await library.was_ever_seen(self.db, self.organization, name):
            raise NotFound(f"There is no image called {name}.")
        return FoundImage(name, None, None, None)

    async def _found(self, image: Image, entry: Entry | None) -> FoundImage:
        marker = str(image.idempotency_key)
        if entry is not None and entry.idempotency_key == marker:
            return FoundImage(image.name, marker, image, entry)
        failures = await ingest.failures(self.db, self.organization, [image])
        received = {image.name: image.created_at}
        coming = entry is None and bool(
            await library.still_to_come(self.db, self.organization, received)
        )
        return FoundImage(
            image.name,
            marker,
            image,
            None,
            holder=entry if image.status is ImageStatus.STORED else None,
            coming=coming,
            failure=failures.get(image.id, {}).get("message"),
            wait=(await ingest.waits(self.db, [image])).get(image.id),
        )

    async def lines(self, found: FoundImage, before: int | None) -> tuple[list[Activity], bool]:
        """Of the image and of its name, newest first; and whether there are more."""
        subjects = [f"upload:{found.name}"]
        if found.image_id:
            subjects.append(f"image:{found.image_id}")
        rows = await activity.latest(
            self.db, self.organization, subjects, before=before, limit=LINES
        )
        return rows[:LINES], len(rows) > LINES

    async def uploader(self, found: FoundImage) -> str | None:
        if found.image_id is None:
            return None
        told = await activity.told(
            self.db, self.organization, f"image:{found.image_id}", "image_uploaded"
        )
        names = (facts.get("actor", {}).get("name") for facts in told)
        return next((name for name in names if isinstance(name, str)), None)

    async def submissions(
        self, found: FoundImage, lines: Sequence[Activity]
    ) -> list[ShownSubmission]:
        """Its history names those that are over."""
        if found.marker is None:
            return []
        told = [line.data.get("id") for line in lines if line.type == "submission_state_changed"]
        living = await submissions.of_source(self.db, self.organization, "upload", found.name)
        ids = {str(one) for one in told if one} | {one.id for one in living}
        made = await submissions.of_marker(
            self.db, self.organization, found.marker, sorted(ids), _MOST_SUBMISSIONS
        )
        return [ShownSubmission(one, await self._approval(one)) for one in made]

    async def is_submitted(self, found: FoundImage) -> bool:
        """And neither rejected nor taken back."""
        living = await submissions.of_source(self.db, self.organization, "upload", found.name)
        return any(one.source_marker == found.marker for one in living)

    async def _approval(self, submission: Submission) -> Approval | None:
        if submission.approval_id is None:
            return None
        return await approvals.find(self.db, self.organization, submission.approval_id)

    async def renditions(self, entry: Entry | None) -> list[RenditionRow]:
        if entry is None:
            return []
        marker = entry.idempotency_key
        sizes = await thumbnails.sizes(self.db, self.organization, entry.name, marker)
        return renditions(self.organization, entry, *sizes)

    async def neighbours(
        self, found: FoundImage, wanted: GalleryFilter
    ) -> tuple[Neighbour | None, Neighbour | None]:
        """The newer and the older one of the library that was come from."""
        if wanted.is_wordless:
            return None, None
        filters = wanted.as_filters()
        newer = await lists.newer(self.db, self.organization, filters, found.place)
        older = await lists.page(self.db, self.organization, filters, found.place, 1)
        return self._neighbour(newer, wanted), self._neighbour(older[0] if older else None, wanted)

    def _neighbour(self, entry: Entry | None, wanted: GalleryFilter) -> Neighbour | None:
        if entry is None:
            return None
        there = address(self.organization, entry.image_id, entry.name, wanted)
        return Neighbour(entry.name, there, thumbnail(self.organization, entry, _LARGE))


async def alike(similar: Similar, entry: Entry, most: int = ALIKE) -> tuple[list[Entry], str]:
    """The most similar first; or why there are none, in words."""
    try:
        found = await similar.find(entry.organization, entry.name, most)
    except (NotReady, Unavailable) as error:
        return [], error.message
    except NotFound:  # it went in between
        return [], ""
    return [one for one, _ in found], "" if found else "There is no other image to compare it with."


async def dead_letter(
    queue: Queue, units: Units, organization: str, found: FoundImage
) -> DeadLetter | None:
    """The work on it that was given up, and that a person may have tried again."""
    about, name = queue.dead_letters.about, found.name
    async with units.open(organization) as unit:
        letters = await about(unit, RUN, {"name": name, "idempotencyKey": found.marker})
        if found.entry is None:
            letters += await about(unit, DELIVER, {"name": name})
        if found.image_id is not None:
            letters += await about(unit, OFFLOAD, {"imageId": found.image_id})
    return letters[0] if letters else None
