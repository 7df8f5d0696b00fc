"""Which names look wrong: bucket, index and library side by side, each in the order of keys. Pure.

Of each side there is a page of what follows the same place. The page that ends first says how far
all of them can be compared; what lies behind comes again with the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeVar

from safelight.objects.store import Listed


class Sides(Enum):
    """Where the truth is, and what has to agree with it."""

    BUILT_IN = auto()  # the index, and the library with it
    OWN = auto()  # the bucket, the index with it, and the library with that
    TELLING = auto()  # the bucket; its index knows only what we did, and is not asked


@dataclass(frozen=True, slots=True)
class Indexed:
    etag: str
    size: int
    marker: str | None
    blob: str | None
    event_time: int


@dataclass(frozen=True, slots=True)
class Entered:
    """`idle`: it waits for a run that no job works on."""

    etag: str | None
    marker: str
    event_time: int
    idle: bool


class _Dated(Protocol):
    @property
    def event_time(self) -> int: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of one organization, by name, as far as all sides reach. `until` None: to its end."""

    listed: Mapping[str, Listed]
    indexed: Mapping[str, Indexed]
    entered: Mapping[str, Entered]
    until: str | None

    @property
    def names(self) -> list[str]:
        return sorted({*self.listed, *self.indexed, *self.entered})

    def reaches(self, name: str) -> bool:
        return self.until is None or name <= self.until


def cut(
    listed: Mapping[str, Listed],
    indexed: Mapping[str, Indexed],
    entered: Mapping[str, Entered],
    ends: Sequence[str],
) -> Stretch:
    """`ends` are the last names of the pages behind which there is more."""
    until = min(ends, default=None)
    return Stretch(_up_to(listed, until), _up_to(indexed, until), _up_to(entered, until), until)


def _up_to(page: Mapping[str, T], until: str | None) -> Mapping[str, T]:
    if until is None:
        return page
    return {name: one for name, one in page.items() if name <= until}


def suspects(stretch: Stretch, sides: Sides, young: tuple[int, int]) -> tuple[list[str], int]:
    """Names on which the sides do not agree and that are not young, and how many are: by its times
    something is young when work on it may be under way; a time yet to come says nothing."""
    differing = [name for name in stretch.names if _is_wrong(stretch, name, sides)]
    old = [name for name in differing if not _is_young(stretch, name, young)]
    return old, len(differing) - len(old)


def _is_young(stretch: Stretch, name: str, young: tuple[int, int]) -> bool:
    sides: list[_Dated | None] = [
        stretch.listed.get(name), stretch.indexed.get(name), stretch.entered.get(name),
    ]  # fmt: skip
    return any(young[0] <= each.event_time <= young[1] for each in sides if each is not None)


def _is_wrong(stretch: Stretch, name: str, sides: Sides) -> bool:
    listed, indexed = stretch.listed.get(name), stretch.indexed.get(name)
    entered = stretch.entered.get(name)
    if entered is not None and entered.idle:
        return True
    if sides is Sides.TELLING:
        return _etag(listed) != _etag(entered)
    if sides is Sides.OWN and _bytes(listed) != _bytes(indexed):
        return True
    return _differs(indexed, entered)


def _differs(indexed: Indexed | None, entered: Entered | None) -> bool:
    if indexed is None:
        return entered is not None
    if indexed.marker is None:  # nobody's upload; the entry is of the same bytes, or wrong
        return entered is not None and entered.etag != indexed.etag
    return entered is None or entered.marker != indexed.marker


def _etag(one: Listed | Entered | None) -> str | None:
    return None if one is None else one.etag or ""


def _bytes(one: Listed | Indexed | None) -> tuple[str, int] | None:
    return None if one is None else (one.etag, one.size)
