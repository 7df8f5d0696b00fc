"""Bars by the hour, laid out for SVG. Pure: numbers in, rectangles out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from safelight.infra.injected import iso

PITCH, GAP = 10.0, 2.0  # of one hour, in the drawing's own units
LEAST = 1.5  # what occurred at all can be seen


@dataclass(frozen=True, slots=True)
class BarPart:
    """One colour of a bar."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Hour:
    at: int
    parts: tuple[BarPart, ...]

    @property
    def total(self) -> int:
        return sum(part.count for part in self.parts)


@dataclass(frozen=True, slots=True)
class Rect:
    kind: str
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """An hour's rectangles, from the bottom up, and its numbers in words."""

    x: float
    words: str
    rects: tuple[Rect, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    width: float
    height: float
    columns: tuple[Column, ...]
    bar: float = PITCH - GAP


def draw(hours: Sequence[Hour], height: float, highest: int | None = None) -> Chart:
    """`highest` puts several charts on one scale."""
    top = max(1, highest if highest is not None else max((hour.total for hour in hours), default=1))
    columns = tuple(_column(n * PITCH, hour, height, top) for n, hour in enumerate(hours))
    return Chart(len(hours) * PITCH, height, columns)


def _column(x: float, hour: Hour, height: float, top: int) -> Column:
    rects, y = [], height
    for part in hour.parts:
        if part.count:
            tall = max(LEAST, part.count / top * height)
            y -= tall
            rects.append(Rect(part.kind, round(x + GAP / 2, 2), round(y, 2), round(tall, 2)))
    return Column(x, f"{_clock(hour.at)}: {_in_words(hour.parts)}", tuple(rects))


def _in_words(parts: Iterable[BarPart]) -> str:
    return ", ".join(f"{part.count} {part.kind}" for part in parts if part.count) or "none"


def _clock(ms: int) -> str:
    return f"{iso(ms)[11:16]} UTC"
