"""Dead letters as people read them: what gave up, what it was to do and why it could not. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from safelight.infra.queue.dead_letters import AT_ONCE
from safelight.infra.queue.jobs import DeadLetter
from safelight.infra.queue.watched import LetterGroup
from safelight.web.pictures import Thing
from safelight.web.story.upkeep import work_in_words


@dataclass(frozen=True, slots=True)
class LetterRow:
    letter: DeadLetter
    thing: Thing | None

    @property
    def title(self) -> str:
        return self.thing.title if self.thing else self.letter.subject or "The system's own"

    @property
    def payload(self) -> str:
        return json.dumps(self.letter.payload, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class LetterGroupShown:
    """`rows` are its latest; there may be more."""

    group: LetterGroup
    rows: Sequence[LetterRow]

    @property
    def key(self) -> str:
        return f"{self.group.kind}/{self.group.code}"

    @property
    def work(self) -> str:
        return work_in_words(self.group.kind)

    @property
    def example(self) -> LetterRow | None:
        """The first that can be shown, or named."""
        pictured = [row for row in self.rows if row.thing and row.thing.picture]
        named = [row for row in self.rows if row.thing]
        return next(iter([*pictured, *named, *self.rows]), None)

    @property
    def message(self) -> str:
        return self.rows[0].letter.error.get("message", "") if self.rows else ""

    @property
    def whose(self) -> str:
        if self.group.organizations > 1:
            return f"{self.group.organizations} organizations"
        owners = {row.letter.organization for row in self.rows}
        return next(iter(owners), None) or "the system's own"

    @property
    def query(self) -> str:
        return "?" + urlencode({"kind": self.group.kind, "code": self.group.code})

    @property
    def at_once(self) -> int:
        return min(self.group.count, AT_ONCE)


@dataclass(frozen=True, slots=True)
class Letters:
    """`alone` shows one group with all of its letters, by pages."""

    groups: Sequence[LetterGroupShown]
    total: int
    alone: bool = False
    more: str | None = None

    @property
    def at_once(self) -> int:
        return min(self.total, AT_ONCE)


def settled_in_words(redriven: int | None, discarded: int | None, remaining: int) -> str | None:
    """What became of a request for many."""
    count, verb = (redriven, "redriven") if redriven is not None else (discarded, "discarded")
    if count is None:
        return None
    return f"{count:,} {verb}, {remaining:,} of those remain."
