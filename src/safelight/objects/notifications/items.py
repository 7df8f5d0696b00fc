"""What reading a notification can find."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from safelight.objects.notifications.notice import Notice


@dataclass(frozen=True, slots=True)
class Ignored:
    """Not for us, and rightly so. `raw` is fit for a JSON column and never None."""

    code: str
    reason: str
    raw: object


@dataclass(frozen=True, slots=True)
class Rejected:
    """Can never be processed: a dead letter at once. `raw` is as in `Ignored`."""

    code: str
    reason: str
    raw: object


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Something inside an envelope, still to be recognised; text is JSON to be parsed."""

    body: object


Item: TypeAlias = Notice | Ignored | Rejected | Wrapped
Body: TypeAlias = Mapping[object, object]


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of notification. `read` takes only what `matches`, and neither ever raises."""

    name: str
    matches: Callable[[Body], bool]
    read: Callable[[Body], Iterable[Item]]


@dataclass(frozen=True, slots=True)
class Normalised:
    events: list[Notice] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
