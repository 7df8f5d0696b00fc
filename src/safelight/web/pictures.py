"""Small pictures of things that are named elsewhere, for those who may see them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from safelight.infra.db import Database
from safelight.ingest import repo as ingest
from safelight.library import repo as library
from safelight.submissions import repo as submissions
from safelight.web.image.shown import thumbnail
from safelight.web.sentences import address_of

_SMALL = 320


@dataclass(frozen=True, slots=True)
class Thing:
    """What something is about, as people know it. `upload` is the name of its picture."""

    organization: str
    title: str
    upload: str | None = None
    address: str | None = None
    picture: str | None = None


async def thing_of(db: Database, organization: str, subject: str | None) -> Thing | None:
    """None: it has no name of its own."""
    kind, _, name = (subject or "").partition(":")
    address = address_of(subject or "", organization)
    if kind == "upload" and name:
        return Thing(organization, name, name, address)
    if kind == "image":
        image = await ingest.find(db, name)
        return Thing(organization, image.name, image.name, address) if image else None
    if kind == "submission" and (found := await submissions.find(db, name)):
        upload = found.source_id if found.source_kind == "upload" else None
        return Thing(organization, found.title or upload or "A submission", upload, address)
    return None


async def with_pictures(
    db: Database, things: Sequence[Thing], visible: Collection[str]
) -> list[Thing]:
    """In their order; only members of an organization see its pictures and pages."""
    names: dict[str, set[str]] = {}
    for thing in things:
        if thing.upload and thing.organization in visible:
            names.setdefault(thing.organization, set()).add(thing.upload)
    found: dict[tuple[str, str], str | None] = {}
    for organization, wanted in names.items():
        entries = await library.of_names(db, organization, sorted(wanted))
        for name, entry in entries.items():
            found[organization, name] = thumbnail(organization, entry, _SMALL)
    return [
        replace(
            thing,
            picture=found.get((thing.organization, thing.upload or "")),
            address=thing.address if thing.organization in visible else None,
        )
        for thing in things
    ]
