"""CPU and memory of process trees, and what everything is printed as: tables and figures."""

import statistics
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

import psutil

Limit = tuple[Literal["≤", "≥"], float]


def tree(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def is_postgres(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "postgres" in process.name()
    return False


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: list[float]) -> float:
    return statistics.median(values)


class Shown(Protocol):
    """Something on the page."""

    def markdown(self) -> str: ...


class Table:
    """Rows for a person in the terminal and for docs/performance.md alike."""

    def __init__(self, title: str, *columns: str, says: str = "") -> None:
        self.title = title
        self._says = says
        self._rows: list[tuple[str, ...]] = [columns]

    def add(self, *cells: object) -> None:
        self._rows.append(tuple(str(cell) for cell in cells))

    def judge(self, what: str, value: float, limit: Limit, form: str = "{:.2f}") -> None:
        """In a table whose columns are what, value, budget and verdict."""
        sign, budget = limit
        shown, wanted = form.format(value), f"{sign} {_number(budget, form)}"
        self.add(f"**{what}**", f"**{shown}**", wanted, verdict(value, limit))

    def markdown(self) -> str:
        head, *rows = self._rows
        says = [self._says, ""] if self._says else []
        lines = [f"## {self.title}", "", *says, _row(head), _row(["---"] * len(head))]
        return "\n".join([*lines, *map(_row, rows)]) + "\n"


@dataclass(frozen=True)
class Figure:
    """A picture beside the page, and what it shows in words."""

    file: str
    says: str

    def markdown(self) -> str:
        return f"![{self.says}](images/{self.file})\n"


@dataclass(frozen=True)
class Words:
    text: str

    def markdown(self) -> str:
        return f"{self.text}\n"


def verdict(value: float, limit: Limit) -> str:
    sign, budget = limit
    met = value <= budget if sign == "≤" else value >= budget
    return "met" if met else "**missed**"


def _number(budget: float, form: str) -> str:
    """The budget with the value's unit."""
    return f"{budget:g}{form.partition('}')[2]}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
