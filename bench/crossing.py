"""What it costs to have an image decoded and judged in a child: the same image here and there, by
turns; CPU of both processes. Here means in a thread, as a server has to do it that answers others
meanwhile.

Where a process happens to lie in memory makes more of a difference than the way into a child, so
several pairs of processes are asked, each by `python -m bench.crossing SECONDS`; and that way is
measured alone, too.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import psutil
import uvloop

from bench.classify import warm
from bench.measure import Table, median
from bench.pictures import two_megapixels
from safelight.classification import lite0
from safelight.infra.injected import SystemClock
from safelight.sandbox.children import Kit
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load

_PAIRS, _SECONDS, _TURN = 8, 8.0, 5
Turn = tuple[float, float]  # milliseconds here, and there


def run() -> Table:
    found: defaultdict[str, list[Turn]] = defaultdict(list)
    command = [sys.executable, "-m", "bench.crossing", str(_SECONDS)]
    for _ in range(_PAIRS):
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name, turns in json.loads(told.splitlines()[-1]).items():
            found[name] += turns
    table = Table("Children: CPU per image, 2 MP JPEGs", "what", "value", "budget")
    for name, turns in found.items():
        here, there = [turn[0] for turn in turns], [turn[1] for turn in turns]
        more = sorted(there - here for here, there in turns)
        half = f"{more[len(more) // 4]:+.2f} to {more[len(more) * 3 // 4]:+.2f}"
        table.add(f"{name} in a thread of this process", f"{median(here):.2f} ms", "")
        table.add(f"{name} in a child, both processes", f"{median(there):.2f} ms", "")
        told = f"{median(more):+.2f} ms (half of {len(turns)} turns: {half})"
        table.add(f"**{name}: a child costs**", told, "≤ 0.5 ms")
    return table


async def _crossings(seconds: float) -> dict[str, list[Turn]]:
    """A child is handed an open file, as the built-in store's are."""
    predict, data = warm(), two_megapixels()
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    sandbox, kit = Sandbox(at_once=1, idle_seconds=600), Kit("bench.reading")
    classifier = lite0.build(load({"classifier_threads": 1}), SystemClock(), sandbox)
    await classifier.open()
    with NamedTemporaryFile() as written:
        written.write(data)
        written.flush()
        file = os.open(written.name, os.O_RDONLY)
        found = {
            "only read": await _by_turns(
                seconds / 4,
                lambda: loop.run_in_executor(thread, os.pread, file, len(data), 0),
                lambda: sandbox.run("read", file, kit=kit),
            ),
            "decode + infer": await _by_turns(
                seconds,
                lambda: loop.run_in_executor(thread, predict, data),
                lambda: classifier.classify(file),
            ),
        }
        os.close(file)
    await sandbox.close()
    return found


async def _by_turns(
    seconds: float, here: Callable[[], Awaitable[Any]], there: Callable[[], Awaitable[Any]]
) -> list[Turn]:
    """Short ones, and each way once before and once behind the other, so that what else the machine
    does falls on both alike."""
    await there()
    children = [child.pid for child in psutil.Process().children()]
    turns, ends = [], time.monotonic() + seconds
    while time.monotonic() < ends:
        spent = dict.fromkeys((here, there), 0)
        for way in (here, there, there, here):
            before = sum(map(_nanoseconds, [os.getpid(), *children]))
            for _ in range(_TURN):
                await way()
            spent[way] += sum(map(_nanoseconds, [os.getpid(), *children])) - before
        turns.append((spent[here] / _TURN / 2e6, spent[there] / _TURN / 2e6))
    return turns


def _nanoseconds(pid: int) -> int:
    """On a processor, as the kernel counts them for each thread."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            total += int((thread / "schedstat").read_text().split()[0])
    return total


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_crossings(float(sys.argv[1])))))
