"""Lines of history, the spine: what a change tells of itself, and the world of it. Pure.

Every change of state, every drop and every failed attempt leaves a line, in the same transaction as
the change (activity.py). A feature declares which of its types are public messages and what they
carry (`MESSAGES` beside its lifecycle); all others are inner ones: part of a subject's story, and
of the feed only when asked for.
"""

from dataclasses import dataclass, field
from typing import Any

from safelight.infra.injected import iso

STORY = ("from", "to", "reason", "beatenBy", "attempt", "error", "actor")
SYSTEM = {"type": "system", "name": "safelight"}  # the actor of what nobody asked for


@dataclass(frozen=True, slots=True)
class Line:
    """To be written. `data` holds story fields and message fields alike; `also` is a second subject
    whose story this belongs to."""

    subject: str
    type: str
    data: dict[str, Any] = field(default_factory=dict)
    also: str | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """One that was written."""

    seq: int
    type: str
    at: int
    data: dict[str, Any]
    subject: str = ""  # in the feed; a story is about the one it was asked for
    also: str | None = None  # likewise

    def as_history(self) -> dict[str, Any]:
        story = {key: self.data[key] for key in STORY if key in self.data}
        return {"seq": self.seq, "at": iso(self.at), "type": self.type, **story}
