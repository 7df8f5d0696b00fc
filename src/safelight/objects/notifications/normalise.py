"""From whatever a store or its courier sends to events.

Guarantees: never raises; one record's fate does not depend on another's; nothing is lost: each
record ends as an event, as ignored or as rejected, and what `raw` holds fits a JSON column.
Known gap: keys and times are checked for their form, not for whether they tell the truth.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from safelight.infra.storable import storable
from safelight.objects.notifications.notice import (
    Body,
    Ignored,
    Normalised,
    Notice,
    NotificationItem,
    Rejected,
    Wrapped,
)
from safelight.objects.notifications.registry import FORMATS

DEEPEST: Final = 12
MOST: Final = 10_000


def normalise(body: object) -> Normalised:
    found = Normalised()
    waiting: list[tuple[object, int]] = [(body, 0)]
    for _ in range(MOST):
        if not waiting:
            return found
        thing, depth = waiting.pop()
        inside = _sorted_out(_opened(thing, depth), found)
        # The last in is the first out, so the order of a list is kept by turning it round.
        waiting.extend((inner, depth + 1) for inner in reversed(inside))
    if waiting:
        rest = [thing for thing, _ in reversed(waiting)]
        _file(Rejected("TOO_MANY", f"One body can hold {MOST} things; send fewer.", rest), found)
    return found


def _opened(thing: object, depth: int) -> Iterable[NotificationItem]:
    if depth > DEEPEST:
        return [Rejected("TOO_DEEP", "Too many envelopes in envelopes.", thing)]
    if isinstance(thing, str):
        return [_parsed(thing)]
    if isinstance(thing, list):
        return [Wrapped(inner) for inner in thing]
    if isinstance(thing, Mapping):
        return _read(thing)
    return [_unknown(thing)]


def _parsed(text: str) -> NotificationItem:
    try:
        return Wrapped(json.loads(text))
    except (ValueError, RecursionError):
        return Rejected("UNREADABLE", "Text was sent where JSON belongs.", text)


def _read(body: Body) -> Iterable[NotificationItem]:
    for known in FORMATS:
        if known.matches(body):
            return known.read(body)
    return [_unknown(body)]


def _unknown(thing: object) -> Rejected:
    return Rejected("UNKNOWN_SHAPE", "This is not a notification of a known store.", thing)


def _sorted_out(items: Iterable[NotificationItem], found: Normalised) -> list[object]:
    """Files what is finished and returns what is still to be opened."""
    inside = []
    for item in items:
        if isinstance(item, Wrapped):
            inside.append(item.body)
        else:
            _file(item, found)
    return inside


def _file(item: Notice | Ignored | Rejected, found: Normalised) -> None:
    match item:
        case Notice():
            found.events.append(item)
        case Ignored():
            found.ignored.append(Ignored(item.code, item.reason, _kept(item.raw)))
        case Rejected():
            found.rejected.append(Rejected(item.code, item.reason, _kept(item.raw)))
        case never:
            assert_never(never)


def _kept(raw: object) -> object:
    """Null becomes its text, or a database would take it for the absence of a value."""
    return "null" if raw is None else storable(raw)
