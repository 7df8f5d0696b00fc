"""The same on a real S3 server that only we write to, whose answers are lost and whose writes are
late; and with others who do write to it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.late_bucket import LateBucket, late_bucket
from library.machine import Machine, MeddledBucket, OwnBucket
from library.own_bucket import OwnBucket as World
from library.test_convergence import db, run, runner
from library.test_convergence_seaweed import FEW
from objects.stores import fresh_bucket
from safelight.infra.db import Database
from seaweed import Seaweed

__all__ = ["db", "runner"]
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def late(weed: Seaweed) -> Iterator[LateBucket]:
    with late_bucket(weed.address) as late:
        yield late


@pytest.mark.parametrize("machine", [OwnBucket, MeddledBucket])
@pytest.mark.parametrize("short", [False, True])
def test_a_bucket_that_tells_nothing(
    short: bool,
    machine: type[Machine],
    db: Database,
    runner: asyncio.Runner,
    root: Path,
    weed: Seaweed,
    late: LateBucket,
) -> None:
    run(machine, FEW, World(db, root, late, fresh_bucket(weed), short=short), runner)
