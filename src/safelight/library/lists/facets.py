"""How many entries there are of each label and state. Pure.

A list of labels is to say what choosing another one would show, so each facet is counted under all
that was asked for except itself.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from safelight.library.entry import ENTRY_STATUSES, EntryStatus, LibraryFilter

MOST_LABELS = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """Entries of one label, or none yet, that are in one state."""

    label: str | None
    status: EntryStatus
    count: int


@dataclass(frozen=True, slots=True)
class LabelCount:
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class StatusCount:
    status: EntryStatus
    count: int


@dataclass(frozen=True, slots=True)
class MonthCount:
    """A month that has entries: when it begins, and the newest of them."""

    begins: int
    newest: int
    entries: int


@dataclass(frozen=True, slots=True)
class Facets:
    """Labels most frequent first, and every state. `capped`: counting was ended somewhere, so each
    figure says how many there are at least."""

    total: int
    labels: tuple[LabelCount, ...]
    statuses: tuple[StatusCount, ...]
    capped: bool


def facets_of(cells: Iterable[Cell], wanted: LibraryFilter, *, capped: bool) -> Facets:
    total, labels, statuses = 0, Counter[str](), Counter[EntryStatus]()
    for cell in cells:
        of_label = wanted.label in {None, cell.label}
        of_status = wanted.status in {None, cell.status}
        if of_label and of_status:
            total += cell.count
        if of_label:
            statuses[cell.status] += cell.count
        if of_status and cell.label is not None and cell.count:
            labels[cell.label] += cell.count
    counted = tuple(StatusCount(status, statuses[status]) for status in ENTRY_STATUSES)
    return Facets(total, _foremost(labels, wanted.label), counted, capped)


def _foremost(labels: Counter[str], chosen: str | None) -> tuple[LabelCount, ...]:
    """The one that was chosen is among them, however few it has."""
    ordered = sorted(labels.items(), key=lambda item: (item[0] != chosen, -item[1], item[0]))
    foremost = sorted(ordered[:MOST_LABELS], key=lambda item: (-item[1], item[0]))
    return tuple(LabelCount(label, count) for label, count in foremost)
