"""From whatever a store or its courier sends to events.

Guarantees: raises nothing but `TooManyRecords`, before anything is decided; one record's fate does
not depend on another's; nothing is lost: each record ends as an event, as ignored, as rejected or
as something to confirm. What `raw` holds fits a JSON column, and read again it is judged the same.
Known gap: keys and times are checked for their form, not for whether they tell the truth.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from safelight.errors import FileTooLarge
from safelight.infra.storable import canonical, storable
from safelight.objects.notifications.notice import (
    Body,
    Confirmation,
    Ignored,
    Normalised,
    Notice,
    NotificationItem,
    Rejected,
    Wrapped,
)
from safelight.objects.notifications.reading import PREFIX
from safelight.objects.notifications.registry import FORMATS

DEEPEST: Final = 12
MOST: Final = 10_000


class TooManyRecords(FileTooLarge):
    """One body can hold 10,000 records and envelopes. Nothing of it was taken; send fewer at a
    time."""


def normalise(body: object, prefix: str = "") -> Normalised:
    """`prefix` is what keys of ours begin with in the bucket."""
    reading = PREFIX.set(prefix)
    try:
        return _normalised(body)
    finally:
        PREFIX.reset(reading)


def _normalised(body: object) -> Normalised:
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
        raise TooManyRecords
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


def _file(item: Notice | Ignored | Rejected | Confirmation, found: Normalised) -> None:
    match item:
        case Notice():
            found.events.append(item)
        case Ignored():
            found.ignored.append(Ignored(item.code, item.reason, _kept(item.raw)))
        case Rejected():
            found.rejected.append(rejected(item.raw, item.code, item.reason))
        case Confirmation():
            found.confirmations.append(item)
        case never:
            assert_never(never)


def rejected(raw: object, code: str, reason: str) -> Rejected:
    return Rejected(code, reason, _kept(raw))


def _kept(raw: object) -> object:
    """As it is, if a database takes it so. Otherwise its text, in which every character is there,
    or else a cleaned key could be taken for another. What cannot even be written is cut, and then
    no text of anything."""
    clean = storable(raw)
    if raw is not None and clean == raw:
        return raw
    return canonical(raw) or f"{canonical(clean)} …"
