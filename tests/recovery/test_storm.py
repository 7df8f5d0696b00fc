"""A small storm on whole processes: nothing acknowledged is lost. `python -m tests.storm` has more."""

import asyncio

import pytest

from conftest import reachable_directory
from storm.run import storm

FAULTS = ["kill-server", "kill-postmaster", "cut", "power"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [2])
def test_a_storm_on_the_built_in_store(seed: int) -> None:
    with reachable_directory() as root:
        report = asyncio.run(storm(seed, 2, "local", root, FAULTS, strikes=len(FAULTS)))
    assert report.acknowledged
    assert set(report.faults) | set(report.skipped) == set(FAULTS)
    report.violations.pop("too slow", None)  # other tests run beside this one
    assert not report.violations, report.table()
