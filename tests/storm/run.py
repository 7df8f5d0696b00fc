"""One storm from beginning to end: load, faults chosen by the seed, calm, judgement."""

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safelight.testing.waiting import Overdue, until
from storm.checks import TIME_PASSES, UNSETTLED, Violations, gather, judge
from storm.faults import AWAY, BESIDE, FAULTS, LIMITS, Storm, possible
from storm.load import Load
from storm.worlds import World, world

SOCKETS = 3
CALM_SECONDS = {"local": 90.0, "s3": 180.0, "telling": 120.0}


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
    violations: Violations = field(default_factory=dict)
    kept: str = ""

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
        kinds = ("lost", "wrong version", "doubled", "stuck", "dead letters", "feed")
        rows += [(kind, len(self.violations.get(kind, []))) for kind in kinds]
        rows += [(kind, len(what)) for kind, what in self.violations.items() if kind not in kinds]
        wide = max(len(name) for name, _ in rows)
        return "\n".join(f"  {name:<{wide}}  {value}" for name, value in rows)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {times}" for name, times in sorted(counts.items()))


async def storm(
    seed: int,
    minutes: float,
    store: Any,
    root: Path,
    wanted: list[str] | None = None,
    strikes: float = float("inf"),
) -> Report:
    """Ends after so many minutes or strikes, whichever comes first."""
    draw = random.Random(seed)
    report = Report(seed, store)
    async with world(store, root, seed, worker=draw.random() < 0.5) as made:
        load = Load([server.url for server in made.servers], seed)
        raging = Storm(made, load, draw)
        listening = [asyncio.create_task(load.listen(number)) for number in range(SOCKETS)]
        running = asyncio.create_task(load.run())
        telling = asyncio.create_task(_tell(raging))
        began = time.monotonic()
        able, report.skipped = possible(made, list(FAULTS) if wanted is None else wanted)
        if able:
            await _rage(raging, able, began + 60 * minutes, strikes)
        else:
            await asyncio.sleep(60 * minutes)
        report.seconds = time.monotonic() - began
        load.end()
        never = await _not_ready(made)
        await running
        report.settled_in = await _calm(made)
        telling.cancel()
        found = await gather(made, {one.name for one in load.operations if one.mode != "rename"})
        newest = max((seq for seq, *_ in found.lines), default=0)
        with suppress(Overdue):  # then the judgement says what is missing
            await until(lambda: all(reader.position >= newest - 20 for reader in load.readers), 10)
            await asyncio.sleep(3)  # the last lines are inner ones, perhaps; nothing says so
        for task in listening:
            if task.done():  # a reader that broke is none that was not told
                task.result()
            task.cancel()
        report.violations = judge(load.operations, load.readers, found)
        report.violations |= {"not ready": never} if never else {}
        _count(report, raging)
    return report


async def _not_ready(made: World) -> list[str]:
    """Who does not answer a minute after the last fault; they are helped, so that we can look."""
    try:
        await made.until_ready(60)
    except Overdue:
        slow = [server.name for server in made.servers if not await server.ready()]
        await made.relieve()
        await made.until_ready()
        return slow
    return []


async def _rage(raging: Storm, able: list[str], end: float, strikes: float) -> None:
    bag: list[str] = []
    while time.monotonic() < end and raging.struck.total() < strikes:
        if not bag:  # each before any comes again
            bag = raging.draw.sample(able, len(able))
        # Most strike work that is under way, some while the last is not yet got over.
        wanted = raging.load.acknowledged + raging.draw.choice([0, 4, 8, 16, 32])
        with suppress(Overdue):
            await until(partial(raging.load.has_acknowledged, wanted), 15, every=0.05)
        name = bag.pop()
        raging.struck[name] += 1
        raging.note(name)
        await FAULTS[name][0](raging)


async def _calm(made: World) -> float:
    """Waits until nothing is left to do; what is left then is stuck."""
    began = time.monotonic()
    if made.bucket:
        made.bucket.calm = True

    async def settled() -> bool:
        with suppress(*AWAY):
            if made.bucket and made.bucket.untold:
                return False
            left = [row["what"] for row in await made.ask(UNSETTLED)]
            if made.bucket and not any(what.startswith(("job", "image")) for what in left):
                await made.ask(TIME_PASSES)
            return not left
        return False

    with suppress(Overdue):
        await until(settled, CALM_SECONDS[made.store], every=1)
    return time.monotonic() - began


def _count(report: Report, raging: Storm) -> None:
    operations = raging.load.operations
    report.faults = dict(raging.struck)
    report.acknowledged = raging.load.acknowledged
    report.unknown = sum(one.answer == "unknown" for one in operations)
    report.feed_rows = sum(len(reader.seen) for reader in raging.load.readers)
    report.resumed = sum(reader.hung_up for reader in raging.load.readers)
    for server, since, until_ in raging.frozen:
        beside = [
            one.ended - one.began
            for one in operations
            if one.acknowledged
            and one.server != server
            and one.began < until_
            and one.ended > since
        ]
        if beside:
            raging.figures[BESIDE].append(max(beside))
    for name, values in raging.figures.items():
        middle, longest = statistics.median(values), max(values)
        report.figures[name] = {"count": len(values), "median": middle, "longest": longest}
        if longest > LIMITS[name]:
            report.violations.setdefault("too slow", []).append(f"{name} {longest:.1f} s")


async def _tell(raging: Storm) -> None:
    began = time.monotonic()
    terminal = sys.stderr.isatty()
    while True:
        await asyncio.sleep(1 if terminal else 10)
        line = (
            f"{time.monotonic() - began:5.0f} s  {raging.struck.total():3} faults  "
            f"{raging.load.acknowledged:6} acknowledged  {_listed(raging.struck)}"
        )
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:width]:<{width}}" if terminal else line, end="" if terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--store", choices=["local", "s3", "telling"], default="local")
    options.add_argument("--faults", help=f"some of: {', '.join(FAULTS)}; or none")
    options.add_argument("--strikes", type=float, default=float("inf"), help="end after so many")
    options.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    given = options.parse_args()
    wanted = None if given.faults is None else [n for n in given.faults.split(",") if n != "none"]
    root = Path(tempfile.mkdtemp(prefix="storm-"))
    root.chmod(0o711)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # whoever ends us, the world is taken down
    report = asyncio.run(storm(given.seed, given.minutes, given.store, root, wanted, given.strikes))
    print(f"\n{report.table()}")
    if report.skipped:
        print(f"  not possible here: {', '.join(report.skipped)}")
    for kind, what in report.violations.items():
        print(f"\n{kind}:", *what[:20], sep="\n  ")
    if report.violations:
        report.kept = str(root)
        print(f"\nLogs and data are kept in {root}")
    else:
        shutil.rmtree(root)
    if given.json:
        with given.json.open("a") as file:
            file.write(json.dumps(vars(report)) + "\n")
    return 1 if report.violations else 0
