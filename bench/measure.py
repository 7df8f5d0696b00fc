"""CPU and memory of process trees, and the table everything is printed as."""

import statistics
from collections.abc import Iterable
from contextlib import suppress

import psutil


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


class Table:
    """Rows for a person in the terminal and for docs/performance.md alike."""

    def __init__(self, title: str, *columns: str) -> None:
        self.title = title
        self._rows: list[tuple[str, ...]] = [columns]

    def add(self, *cells: object) -> None:
        self._rows.append(tuple(str(cell) for cell in cells))

    def markdown(self) -> str:
        head, *rows = self._rows
        lines = [f"## {self.title}", "", _row(head), _row(["---"] * len(head))]
        return "\n".join([*lines, *map(_row, rows)]) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
