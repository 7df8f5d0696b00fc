"""One storm from beginning to end: load, faults chosen by the seed, calm, judgement."""

import argparse
import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from safelight.testing.waiting import Overdue, until
from storm.checks import TIME_PASSES, UNSETTLED, Found, gather, judge
from storm.faults import AWAY, BESIDE, FAULTS, LIMITS, Storm, possible
from storm.house import House
from storm.load import Load
from storm.report import Report
from storm.worlds import world

SOCKETS = 3
CALM_SECONDS = {"local": 90.0, "s3": 180.0, "telling": 120.0}


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
        telling = asyncio.create_task(raging.tell())
        began = time.monotonic()
        able, report.skipped = possible(made, list(FAULTS) if wanted is None else wanted)
        if able:
            await _rage(raging, able, began + 60 * minutes, strikes)
        else:
            await asyncio.sleep(60 * minutes)
        report.seconds = time.monotonic() - began
        load.end()
        never = await not_ready(made)
        await running
        if made.bucket:
            made.bucket.calm = True
        bucket = made.bucket
        untold = (lambda: bucket.untold > 0) if bucket else (lambda: False)
        report.settled_in = await settled_in(made, CALM_SECONDS[made.store], untold)
        telling.cancel()
        found = await gather(made, {one.name for one in load.operations if one.mode != "rename"})
        await heard(load, found, listening)
        report.violations = judge(load.operations, load.readers, found)
        report.violations |= {"not ready": never} if never else {}
        _beside(raging)
        report.count(raging, LIMITS)
    return report


async def not_ready(made: House) -> list[str]:
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


async def settled_in(
    made: House, limit: float, untold: Callable[[], bool] = lambda: False
) -> float:
    """Waits until nothing is left to do; what is left then is stuck."""
    began = time.monotonic()

    async def settled() -> bool:
        with suppress(*AWAY):
            if untold():
                return False
            left = [row["what"] for row in await made.ask(UNSETTLED)]
            if made.store != "local" and not any(w.startswith(("job", "image")) for w in left):
                await made.ask(TIME_PASSES)
            return not left
        return False

    with suppress(Overdue):
        await until(settled, limit, every=1)
    return time.monotonic() - began


async def heard(load: Load, found: Found, listening: list[asyncio.Task[None]]) -> None:
    """Waits until the readers have heard what there is to hear, and ends them."""
    newest = max((seq for seq, *_ in found.lines), default=0)
    with suppress(Overdue):  # then the judgement says what is missing
        await until(lambda: all(reader.position >= newest - 20 for reader in load.readers), 10)
        await asyncio.sleep(3)  # the last lines are inner ones, perhaps; nothing says so
    for task in listening:
        if task.done():  # a reader that broke is none that was not told
            task.result()
        task.cancel()


def _beside(raging: Storm) -> None:
    """How long others waited for their answers while somebody stood still."""
    for server, since, until_ in raging.frozen:
        beside = [
            one.ended - one.began
            for one in raging.load.operations
            if one.acknowledged
            and one.server != server
            and one.began < until_
            and one.ended > since
        ]
        if beside:
            raging.figures[BESIDE].append(max(beside))


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
    return report.conclude(root, given.json)
