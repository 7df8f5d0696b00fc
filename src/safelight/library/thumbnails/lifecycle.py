"""Thumbnails as they are found. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmallThumbnail:
    marker: str
    checksum: str | None
    made_at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LargeThumbnail:
    """Of an entry; `key` is the object's, None while there is none. One that is not `labelled` was
    never looked at."""

    marker: str
    checksum: str | None
    labelled: bool
    key: str | None
    made_at: int | None
