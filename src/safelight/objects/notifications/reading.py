"""The checks every format shares: from untrusted fields to a notice, or why there is none.

Known gap: a source that gives some times in whole seconds and others in milliseconds can have two
events of one second the wrong way round.
"""

import hashlib
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from safelight.infra.storable import canonical
from safelight.objects.events import Action
from safelight.objects.keys import (
    METADATA_NAMES,
    InvalidKey,
    InvalidName,
    ReservedKey,
    from_metadata,
    split_key,
)
from safelight.objects.notifications.notice import Body, Ignored, Notice, Rejected

_HEADER: Final = "x-amz-meta-"
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_SEQUENCER: Final = re.compile(r"[0-9A-Fa-f]{1,128}")
_PRINTABLE: Final = re.compile(r"[!-~]{1,1024}")
_NOTHING: Final[Body] = {}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000: Final = 253402300800
_END_OF_SECOND: Final = 999
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


# What our keys begin with in the bucket, while one of its notifications is read (see `normalise`).
PREFIX: Final = ContextVar("PREFIX", default="")


class MalformedTime(ValueError):
    """The message tells a person what is wrong with the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a record says of itself, nothing of it checked yet."""

    raw: Body
    source: str
    action: Action | None
    action_name: object
    key: object
    time: object
    bucket: object = None
    sequencer: object = None
    etag: object = None
    size: object = None
    metadata: object = None


def classify_claims(claims: Claims) -> Notice | Ignored | Rejected:
    """The action decides first: what is nothing to us may be as odd as it likes."""
    if not isinstance(claims.action_name, str):
        return Rejected("MALFORMED_ACTION", "The record does not say what happened.", claims.raw)
    if claims.action is None:
        shown = ascii(claims.action_name[:80])
        return Ignored("UNKNOWN_ACTION", f"Nothing is to be done for {shown}.", claims.raw)
    if not isinstance(claims.key, str):
        return Rejected("MALFORMED_KEY", "The record names no readable object key.", claims.raw)
    return _checked(claims, claims.action, claims.key)


def part(body: Body, name: str) -> Body:
    """The object under that name, empty when there is none."""
    inner = body.get(name)
    return inner if isinstance(inner, Mapping) else _NOTHING


def _checked(claims: Claims, action: Action, key: str) -> Notice | Ignored | Rejected:
    if not key.startswith(PREFIX.get()):
        return Ignored("OTHER_PREFIX", "The key does not begin with our prefix.", claims.raw)
    key = key.removeprefix(PREFIX.get())
    try:
        organization, _ = split_key(key)
        event_time = _event_time(claims.time)
    except ReservedKey as fault:
        return Ignored("RESERVED_KEY", str(fault), claims.raw)
    except InvalidKey as fault:
        return Rejected("MALFORMED_KEY", str(fault), claims.raw)
    except MalformedTime as fault:
        return Rejected("MALFORMED_TIME", str(fault), claims.raw)
    return Notice(
        event_id=_event_id(claims),
        source=claims.source,
        action=action,
        key=key,
        organization=organization,
        event_time=event_time,
        sequencer=_fitting(_SEQUENCER, claims.sequencer),
        etag=_etag(claims.etag),
        size=_size(claims.size),
        metadata=_metadata(claims.metadata),
        bucket=_fitting(_PRINTABLE, claims.bucket),
    )


def _event_time(value: object) -> int:
    if not isinstance(value, str):
        raise MalformedTime("The record has no time.")
    return event_time_ms(value)


def _event_id(claims: Claims) -> str:
    """Of the record as the store wrote it: request ids in it part what looks alike to us."""
    few = [claims.action_name, claims.key, claims.time]
    content = canonical(claims.raw) or canonical(few) or ""
    return hashlib.sha256(f"{claims.source}\n{content}".encode()).hexdigest()[:32]


def _fitting(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _etag(value: object) -> str | None:
    """Without the quotes and the weakness mark that HTTP puts around it."""
    if not isinstance(value, str):
        return None
    return _fitting(_PRINTABLE, value.strip().removeprefix("W/").strip('"'))


def _size(value: object) -> int | None:
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if 0 <= number <= _LARGEST else None


def _metadata(value: object) -> dict[str, str] | None:
    """What is ours, with the case of its names restored; none when nothing of it can be used."""
    if not isinstance(value, Mapping):
        return None
    pairs = ((_metadata_name(key), inner) for key, inner in value.items())
    ours = {name: good for name, inner in pairs if name and (good := _metadata_value(name, inner))}
    return ours or None


def _metadata_name(key: object) -> str | None:
    return METADATA_NAMES.get(key.lower().removeprefix(_HEADER)) if isinstance(key, str) else None


def _metadata_value(name: str, value: object) -> str | None:
    plain = _fitting(_PRINTABLE, value)
    return _decoded(plain) if plain and name == "name" else plain


def _decoded(value: str) -> str | None:
    try:
        name = from_metadata(value)
    except InvalidName:
        return None
    return name if name.isprintable() else None


def event_time_ms(text: str) -> int:
    """A time without a fraction counts as the end of its second."""
    match = _TIME.fullmatch(text)
    if not match:
        raise MalformedTime("A time must look like 2026-01-05T09:07:03.120Z.")
    day, clock, fraction, zone = match.groups()
    milliseconds = _END_OF_SECOND if fraction is None else int(fraction.ljust(3, "0")[:3])
    return _seconds(f"{day}T{clock}{zone.upper()}") * 1000 + milliseconds


def _seconds(text: str) -> int:
    try:
        seconds = (datetime.fromisoformat(text) - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise MalformedTime("There is no such day or time of day.") from None
    if not 0 <= seconds < _YEAR_10000:
        raise MalformedTime("A time must lie between the years 1970 and 9999.")
    return seconds
