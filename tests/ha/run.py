"""Load, faults in an order that the seed decides, calm, judgement."""

import argparse
import asyncio
import signal
import tempfile
import time
from pathlib import Path

from ha.clients import PatientLoad, drawn
from ha.faults import FAULTS, LIMITS, Siege, not_whole, plan
from ha.world import machines
from storm.checks import gather, judge
from storm.report import Report
from storm.run import heard, not_ready, settled_in

SETTLES = 180.0


async def siege(seed: int, minutes: float, faults: int, kinds: list[str], root: Path) -> Report:
    report = Report(seed, "ha")
    async with machines(root) as made:
        urls = [server.url for server in made.servers]
        load = PatientLoad(urls, seed)
        sieging = Siege(made, load, drawn(seed, "siege"))
        listening = [asyncio.create_task(load.listen(n, [url])) for n, url in enumerate(urls)]
        running = asyncio.create_task(load.run())
        telling = asyncio.create_task(sieging.tell())
        began = time.monotonic()
        for due, kind in plan(kinds, seed, faults, 60 * minutes):
            await asyncio.sleep(max(0.0, began + due - time.monotonic()))
            sieging.struck[kind] += 1
            sieging.note(kind)
            await FAULTS[kind](sieging)
        await asyncio.sleep(max(0.0, began + 60 * minutes - time.monotonic()))
        report.seconds = time.monotonic() - began
        load.end()
        broken = await not_whole(made)
        never = await not_ready(made)
        await running
        report.settled_in = await settled_in(made, SETTLES)
        telling.cancel()
        found = await gather(made, {one.name for one in load.operations if one.mode != "rename"})
        await heard(load, found, listening)
        report.violations = judge(load.operations, load.readers, found)
        report.violations |= {"not ready": never} if never else {}
        report.violations |= {"not whole": broken} if broken else {}
        report.count(sieging, LIMITS)
        report.more = {
            "sent again, had arrived": f"{load.sent_again}, {load.had_arrived}",
            "nodes rewound": str(sum(node.rewound() for node in made.nodes)),
        }
    return report


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.ha", description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--faults", type=int, default=20, help="how many")
    options.add_argument("--kinds", default=",".join(FAULTS), help="which of them")
    options.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    given = options.parse_args()
    root = Path(tempfile.mkdtemp(prefix="ha-"))
    root.chmod(0o711)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # whoever ends us, the machines are taken down
    kinds = given.kinds.split(",")
    report = asyncio.run(siege(given.seed, given.minutes, given.faults, kinds, root))
    return report.conclude(root, given.json)
