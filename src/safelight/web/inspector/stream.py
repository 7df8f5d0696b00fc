"""The stream as it is shown: lines of history with what they are about, by the hour, and many of a
kind as one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from safelight.infra.history import Activity
from safelight.library.entry import Entry
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.image.shown import thumbnail
from safelight.web.inspector.topics import MANY
from safelight.web.sentences import Sentence, address_of, joined, sentence_of
from safelight.web.story.words import clean

HOUR_MS: Final = 3_600_000
_FLURRY: Final = 5  # that many of a kind are told as one,
_APART_MS: Final = 60_000  # with no longer pause between two of them
_SMALL: Final = 320
_CALLED: Final = {
    "image": "An image",
    "submission": "A submission",
    "approval": "A question",
    "generation": "A generation",
    "artifact": "An artifact",
}
# Of a submission, whose own page tells more of them.
_STEPS: Final = frozenset({SubmissionState.TIER1_SCANNING, SubmissionState.TIER2_SCANNING})


@dataclass(frozen=True, slots=True)
class Happening:
    """`title` is what it is about, in its own words if `is_name`."""

    seq: int
    at: int
    type: str
    sentence: Sentence
    title: str
    is_name: bool
    address: str | None
    picture: str | None

    @property
    def many(self) -> str | None:
        """What several of them are called; what went wrong is told one by one."""
        return None if self.sentence.tone == "problem" else MANY.get(self.type)


@dataclass(frozen=True, slots=True)
class Flurry:
    lines: tuple[Happening, ...]

    @property
    def newest(self) -> Happening:
        return self.lines[0]

    @property
    def seq(self) -> int:
        return self.newest.seq

    @property
    def words(self) -> str:
        return f"{len(self.lines)} {self.newest.many}"


@dataclass(frozen=True, slots=True)
class StreamHour:
    at: int
    rows: tuple[Happening | Flurry, ...]


def told(lines: Sequence[Activity], *, inner: bool) -> list[Activity]:
    """Newest first, without those that another has said; inner ones only if asked for."""
    stories: dict[str, list[Activity]] = {}
    for line in lines:
        stories.setdefault(line.subject, []).append(line)
    kept = (one for story in stories.values() for one in joined(story))
    shown = (one for one in kept if inner or not _is_inner(one))
    return sorted(shown, key=lambda line: line.seq, reverse=True)


def _is_inner(line: Activity) -> bool:
    return line.data.get("to") in _STEPS or sentence_of(line).inner


def name_of(line: Activity) -> str | None:
    """Of the upload that it tells of."""
    for subject in (line.subject, line.also or ""):
        kind, _, name = subject.partition(":")
        if kind == "upload":
            return name
    named = line.data.get("name") if line.subject.startswith("image:") else None
    return named if isinstance(named, str) else None


def happening(organization: str, line: Activity, entries: Mapping[str, Entry]) -> Happening:
    name = name_of(line)
    title = clean(name or _title(line))
    kind = line.subject.partition(":")[0]
    return Happening(
        line.seq,
        line.at,
        line.type,
        sentence_of(line),
        title or _CALLED.get(kind, ""),
        bool(title),
        address_of(line.subject, organization),
        _picture(organization, line, entries.get(name or "")),
    )


def _title(line: Activity) -> object:
    kind, _, name = line.subject.partition(":")
    return line.data.get("title") if kind == "approval" else name if kind == "user" else None


def _picture(organization: str, line: Activity, entry: Entry | None) -> str | None:
    """Only of that very upload, where the line says which it tells of."""
    if entry is None:
        return None
    of_another = line.data.get("imageId", entry.image_id) != entry.image_id
    marker = line.data.get("idempotencyKey", entry.idempotency_key)
    if of_another or marker != entry.idempotency_key:
        return None
    return thumbnail(organization, entry, _SMALL)


def by_hour(lines: Iterable[Happening], *, together: bool = True) -> list[StreamHour]:
    hours: dict[int, list[Happening]] = {}
    for line in lines:
        hours.setdefault(line.at - line.at % HOUR_MS, []).append(line)
    return [
        StreamHour(at, tuple(gathered(found) if together else found)) for at, found in hours.items()
    ]


def gathered(lines: Sequence[Happening]) -> list[Happening | Flurry]:
    """In their order, a flurry where its newest is."""
    runs: list[list[Happening]] = []
    latest: dict[str, list[Happening]] = {}
    for line in lines:
        run = latest.get(line.many or "")
        if run and run[-1].at - line.at <= _APART_MS:
            run.append(line)
            continue
        runs.append([line])
        if line.many:
            latest[line.many] = runs[-1]
    rows: list[Happening | Flurry] = []
    for run in runs:
        rows += [Flurry(tuple(run))] if len(run) >= _FLURRY else run
    return sorted(rows, key=lambda row: row.seq, reverse=True)
