"""What a sentence is made of, and the careful reading of what a line of history holds. Pure.

Two versions of the server write one history, and some of its words came from outside: whatever is
missing, unknown or of another shape than expected is left out of the sentence, and nothing fails.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from safelight.accounts.access import COMMAND_LINE
from safelight.infra.history import Activity, Line
from safelight.infra.injected import iso
from safelight.objects.events import OURS

_LONGEST = 400
_NOBODY = "Somebody"
_ACTORS = {
    ("system", COMMAND_LINE): "Somebody at the command line",
    ("system", OURS): "Safelight",
    ("event", OURS): "Safelight",
}
# Control characters, halves of pairs, and what turns the direction of everything behind it.
_UNSEEN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]+")
_MOMENTS = range(253_402_300_800_000)  # until the year 10000


@dataclass(frozen=True, slots=True)
class SentencePart:
    """`at` is a moment, for the reader's own clock; a `name` is somebody's own words, which may run
    in another direction than ours."""

    text: str
    at: int | None = None
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """`icon` and `tone` are those of states; `code` is the machine's word for what went wrong. An
    `inner` one is for those who look closer: the story can be followed without it."""

    parts: tuple[SentencePart, ...]
    icon: str = "dot"
    tone: str = "plain"
    inner: bool = False
    code: str | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


Piece = str | SentencePart | None


def said(
    *pieces: Piece, icon: str = "dot", tone: str = "plain", inner: bool = False, code: str = ""
) -> Sentence:
    """Of the pieces that are there, as one sentence: it begins large and ends with a dot."""
    parts = [SentencePart(piece) if isinstance(piece, str) else piece for piece in pieces if piece]
    if parts:
        first, *others = parts
        parts = [first if first.is_name else SentencePart(_begun(first.text), first.at), *others]
    if not "".join(part.text for part in parts).endswith((".", "?", "!", "…")):
        parts.append(SentencePart("."))
    return Sentence(tuple(parts), icon, tone, inner, code or None)


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def clean(value: object) -> str:
    text = _UNSEEN.sub(" ", value).strip() if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Telling:
    """A line that is to be told; what it lacks is empty."""

    type: str
    subject: str
    at: int
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, line: Activity | Line) -> "Telling":
        at = line.at if isinstance(line, Activity) else 0
        return cls(line.type, line.subject, at, mapping(line.data))

    def inside(self, key: str) -> Mapping[str, Any]:
        return mapping(self.facts.get(key))

    def text(self, key: str) -> str:
        return clean(self.facts.get(key))

    def number(self, key: str) -> float | None:
        found = self.facts.get(key)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return None
        return found if math.isfinite(found) else None

    def count(self, key: str) -> int | None:
        number = self.number(key)
        return None if number is None or number < 0 else int(number)

    def name(self, key: str) -> SentencePart | None:
        """In quotation marks, where it stands in a sentence."""
        text = self.text(key)
        return SentencePart(f"“{text}”", is_name=True) if text else None

    def moment(self, key: str) -> SentencePart | None:
        return moment(_ms(self.facts.get(key)))

    @property
    def subject_id(self) -> str:
        return clean(self.subject.partition(":")[2])

    @property
    def beaten_by(self) -> SentencePart | None:
        """When what was stronger had come."""
        return moment(_ms(self.inside("beatenBy").get("eventTime")))

    @property
    def code(self) -> str:
        return clean(self.inside("error").get("code"))

    @property
    def error(self) -> str:
        """What went wrong, as a sentence of its own behind another."""
        return behind(clean(self.inside("error").get("message")))

    @property
    def reason(self) -> str:
        return self.text("reason")

    @property
    def who(self) -> SentencePart:
        """Whoever did it; "Somebody" where nobody is named."""
        actor = self.inside("actor")
        kind, name = clean(actor.get("type")), clean(actor.get("name"))
        if not name:
            return SentencePart(_NOBODY)
        if kind == "user":
            return SentencePart(_begun(name) if name.isalpha() else name, is_name=True)
        ours = _ACTORS.get((kind, name))
        of_kind = {"token": f"The token “{name}”", "event": f"The bucket ({name})"}
        return SentencePart(ours or of_kind.get(kind, name), is_name=ours is None)

    @property
    def by_person(self) -> bool:
        return clean(self.inside("actor").get("type")) in {"user", "token"}


Saying = Callable[[Telling], Sentence]


def behind(words: str) -> str:
    """A sentence of its own, to stand behind another."""
    if not words:
        return ""
    return f" {_begun(words)}" + ("" if words.endswith((".", "?", "!", "…")) else ".")


def moment(ms: int | None) -> SentencePart | None:
    if ms is None or ms not in _MOMENTS:
        return None
    return SentencePart(f"{iso(ms)[:16].replace('T', ' ')} UTC", at=ms)


def _ms(text: object) -> int | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        known = found and (found if found.tzinfo else found.replace(tzinfo=UTC))
        return None if known is None else round(known.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def percent(score: float) -> str:
    """Whole, except that neither certainty nor its contrary is claimed by rounding."""
    whole = round(score * 100)
    if whole == 100 and score < 1:  # noqa: PLR2004
        return "> 99 %"
    return "< 1 %" if whole == 0 and score > 0 else f"{whole} %"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
