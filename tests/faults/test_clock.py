"""The shim itself: it moves the time of day, at once, and nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.clock import NoCompiler, Shim

PROGRAM = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


def test_a_running_process_sees_the_step_and_its_monotonic_clock_does_not(tmp_path: Path) -> None:
    try:
        clock = Shim(tmp_path).clock("one")
    except NoCompiler:
        pytest.skip("no C compiler here")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    ) as process:
        assert process.stdin
        assert process.stdout
        for shift in (0, -60, 3600):
            clock.shift(shift)
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            assert abs(wall - time.time() - shift) < 10
            assert abs(monotonic - time.monotonic()) < 10
