"""What a storm has to say: who strikes and what he measured, while it lasts and at its end."""

import asyncio
import json
import random
import shutil
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storm.checks import Violations
from storm.house import House
from storm.load import Load


@dataclass
class Striking:
    world: House
    load: Load
    draw: random.Random
    struck: Counter[str] = field(default_factory=Counter)
    figures: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, name: str) -> None:
        """For whoever reads the logs afterwards."""
        with (self.world.root / "logs" / "strikes.log").open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat()} {name}\n")

    async def lasts(self, shortest: float, longest: float) -> None:
        await asyncio.sleep(self.draw.uniform(shortest, longest))

    async def tell(self) -> None:
        """For ever: where it stands."""
        began = time.monotonic()
        terminal = sys.stderr.isatty()
        while True:
            await asyncio.sleep(1 if terminal else 10)
            line = (
                f"{time.monotonic() - began:5.0f} s  {self.struck.total():3} faults  "
                f"{self.load.acknowledged:6} acknowledged  {_listed(self.struck)}"
            )
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:width]:<{width}}" if terminal else line, end="" if terminal else "\n",
                  file=sys.stderr, flush=True)  # fmt: skip


@dataclass
class Report:
    seed: int
    store: str
    seconds: float = 0
    faults: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    acknowledged: int = 0
    unknown: int = 0
    feed_rows: int = 0
    resumed: int = 0
    settled_in: float = 0
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    violations: Violations = field(default_factory=dict)
    kept: str = ""

    def count(self, striking: Striking, limits: Mapping[str, float]) -> None:
        operations, readers = striking.load.operations, striking.load.readers
        self.faults = dict(striking.struck)
        self.acknowledged = striking.load.acknowledged
        self.unknown = sum(one.answer == "unknown" for one in operations)
        self.feed_rows = sum(len(reader.seen) for reader in readers)
        self.resumed = sum(reader.hung_up for reader in readers)
        for name, values in striking.figures.items():
            middle, longest = statistics.median(values), max(values)
            self.figures[name] = {"count": len(values), "median": middle, "longest": longest}
            if longest > limits.get(name, float("inf")):
                self.violations.setdefault("too slow", []).append(f"{name} {longest:.1f} s")

    def table(self) -> str:
        rows: list[tuple[str, Any]] = [
            ("seed, store", f"{self.seed}, {self.store}"),
            ("seconds of load", round(self.seconds)),
            ("faults", f"{sum(self.faults.values())}: {_listed(self.faults)}"),
            ("acknowledged", self.acknowledged),
            ("unanswered or unknown", self.unknown),
            ("feed rows read, sockets resumed", f"{self.feed_rows}, {self.resumed}"),
            ("settled after", f"{self.settled_in:.1f} s"),
        ]
        rows += [
            (
                name,
                f"median {one['median']:.1f} s, longest {one['longest']:.1f} s, of {one['count']:.0f}",
            )
            for name, one in self.figures.items()
        ]
        rows += self.more.items()
        kinds = ("lost", "wrong version", "doubled", "stuck", "dead letters", "feed")
        rows += [(kind, len(self.violations.get(kind, []))) for kind in kinds]
        rows += [(kind, len(what)) for kind, what in self.violations.items() if kind not in kinds]
        wide = max(len(name) for name, _ in rows)
        return "\n".join(f"  {name:<{wide}}  {value}" for name, value in rows)

    def conclude(self, root: Path, line: Path | None) -> int:
        """Prints it, adds it to a file, and keeps what lies in `root` if anything is wrong."""
        print(f"\n{self.table()}")
        if self.skipped:
            print(f"  not possible here: {', '.join(self.skipped)}")
        for kind, what in self.violations.items():
            print(f"\n{kind}:", *what[:20], sep="\n  ")
        if self.violations:
            self.kept = str(root)
            print(f"\nLogs and data are kept in {root}")
        else:
            shutil.rmtree(root)
        if line:
            with line.open("a") as file:
                file.write(json.dumps(vars(self)) + "\n")
        return 1 if self.violations else 0


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {times}" for name, times in sorted(counts.items()))
