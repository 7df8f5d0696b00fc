"""History in sentences: what a line tells, in words that a support person could send. Pure.

    said = sentence_of(line)
    said.text                # with times as UTC
    said.parts               # with moments and names apart, for a page (`ui.sentence`)
    address_of(line.subject, organization)    # the page of what it is about

A feature's sentences stand together in story/, by the types of its lines. A line of a type that
nobody knows here, from a newer version or a much older one, is told in the words of its type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from safelight.infra.history import Activity, Line
from safelight.web.story import generating, images, publishing, upkeep
from safelight.web.story.words import (
    Saying,
    Sentence,
    SentencePart,
    Telling,
    behind,
    clean,
    mapping,
    said,
)

__all__ = ["SAYINGS", "Sentence", "SentencePart", "address_of", "joined", "sentence_of"]

SAYINGS: Final[Mapping[str, Saying]] = {
    **images.SAYINGS,
    **publishing.SAYINGS,
    **generating.SAYINGS,
    **upkeep.SAYINGS,
}

# Where a subject is at home, by its type; {id} is quoted.
_PAGES: Final = {
    "image": "/app/{org}/images/{id}",
    "upload": "/app/{org}/images?name={id}",
    "submission": "/submit/{id}",
    "approval": "/app/{org}/workflow#{id}",
    "generation": "/app/{org}/generate/{id}",
    "artifact": "/app/{org}/library/{id}",
    "user": "/app/{org}/settings",
    "token": "/app/{org}/settings",
    "policy": "/app/{org}/settings",
    "blocklist": "/app/{org}/settings",
    "organization": "/app/{org}/settings",
    "quotas": "/app/{org}/settings",
    "retention": "/app/{org}/settings",
}


def sentence_of(line: Activity | Line) -> Sentence:
    """Never fails, whatever the line holds."""
    saying = SAYINGS.get(line.type)
    told = Telling.of(line)
    return saying(told) if saying else _unknown(told)


def _unknown(told: Telling) -> Sentence:
    words = clean(told.type).replace("_", " ") or "something happened"
    return said(words, ".", behind(told.reason), told.error, code=told.code)


def address_of(subject: str, organization: str) -> str | None:
    """The path of a subject's page, for those who may see it; None: it has none."""
    kind, _, name = subject.partition(":")
    page = _PAGES.get(kind)
    if page is None or ("{id}" in page and not name):
        return None
    organization, name = quote(organization, safe=""), quote(name, safe="")
    return page.format(org=organization, id=name)


def joined(lines: Iterable[Activity]) -> list[Activity]:
    """An upload is told by two lines of one moment: who sent it, and that it has arrived. Here the
    second has it all, and the first is left out where it has nothing else to tell."""
    found = list(lines)
    actors = {line.at: _fact(line, "actor") for line in found if line.type == "image_uploaded"}
    arrived = {line.at for line in found if line.type == "upload_ingested"}
    return [_with(line, actors.get(line.at)) for line in found if not _is_said(line, arrived)]


def _with(line: Activity, actor: object) -> Activity:
    if line.type != "upload_ingested" or not isinstance(actor, dict):
        return line
    return replace(line, data={**line.data, "actor": actor})


def _is_said(line: Activity, arrived: set[int]) -> bool:
    return line.type == "image_uploaded" and line.at in arrived and not _fact(line, "reason")


def _fact(line: Activity, key: str) -> object:
    return mapping(line.data).get(key)
