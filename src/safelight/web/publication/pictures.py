"""What can be seen of what was submitted: drawings of the very bytes that were pinned, as long as
the library has them, or what is published."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from safelight.generations.artifacts import repo as artifacts
from safelight.infra.db import Database
from safelight.library import repo as library
from safelight.library.entry import Entry
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.web.image.shown import FoundImage, address, picture_of
from safelight.web.sentences import address_of


@dataclass(frozen=True, slots=True)
class PinnedPicture:
    """`there`: what was submitted is still to be had under its name, and `home` is its page. A
    `small` or `large` of None has to make do with a placeholder."""

    there: bool = False
    home: str | None = None
    small: str | None = None
    large: str | None = None


NO_PICTURE: Final = PinnedPicture()


async def pinned_pictures(
    db: Database,
    organization: str,
    submissions: Iterable[Submission],
    *,
    originals: bool,
    may_decide: bool,
) -> dict[str, PinnedPicture]:
    """By the id of the submission. `originals` are shown where no thumbnails are made."""
    wanted = list(submissions)
    uploads = [(one.source_id, one.source_marker) for one in wanted if one.source_kind == "upload"]
    entries = await library.of_markers(db, organization, uploads)
    made = [one.source_id for one in wanted if one.source_kind == "artifact"]
    known = await artifacts.of_ids(db, organization, made)
    found = {}
    for one in wanted:
        if one.source_kind == "upload":
            source = _of_upload(one, entries.get(one.source_id), originals=originals)
        else:
            is_there = one.source_id in known
            source = _of_artifact(one, originals=originals) if is_there else NO_PICTURE
        found[one.id] = _best(one, source, may_decide=may_decide)
    return found


def _of_upload(submission: Submission, entry: Entry | None, *, originals: bool) -> PinnedPicture:
    marker = submission.source_marker
    if entry is None or entry.idempotency_key != marker:
        return NO_PICTURE
    found = FoundImage(entry.name, marker, None, entry)
    shown = picture_of(entry.organization, found, originals=originals)
    home = address(entry.organization, entry.image_id, entry.name)
    if shown is None:
        return PinnedPicture(there=True, home=home)
    return PinnedPicture(True, home, shown.placeholder or shown.source, shown.source)


def made_picture(artifact_id: str, checksum: str, *, originals: bool) -> str:
    """The address of what was generated, as a small picture."""
    base = f"/artifacts/{quote(artifact_id, safe='')}"
    return f"{base}/content" if originals else f"{base}/thumbnail?size=320&v={checksum}"


def _of_artifact(submission: Submission, *, originals: bool) -> PinnedPicture:
    small = made_picture(submission.source_id, submission.checksum, originals=originals)
    home = address_of(submission.source_subject, submission.organization)
    large = f"/artifacts/{quote(submission.source_id, safe='')}/content"
    return PinnedPicture(True, home, small, large)


def _best(submission: Submission, source: PinnedPicture, *, may_decide: bool) -> PinnedPicture:
    """What is or would be published says more than its source, whose drawing is lighter."""
    shown = None
    if submission.state is SubmissionState.PUBLISHED:
        shown = f"/public/{submission.id}"
    elif submission.state is SubmissionState.AWAITING_APPROVAL and may_decide:
        shown = f"/api/v1/submissions/{submission.id}/preview"
    return PinnedPicture(source.there, source.home, source.small or shown, shown or source.large)
