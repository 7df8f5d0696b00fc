"""The same on a real S3 server, with notifications that are lost, doubled, late and out of order."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import settings

from library.machine import LosingBucket
from library.test_convergence import MANY, db, run, runner
from library.world import World
from objects.stores import fresh_bucket
from safelight.infra.db import Database
from seaweed import Seaweed

__all__ = ["db", "runner"]
FEW = settings(MANY, max_examples=int(os.environ.get("BUCKET_EXAMPLES", "15")))
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("short", [False, True])
def test_a_bucket_that_tells_most_of_it(
    short: bool, db: Database, runner: asyncio.Runner, root: Path, weed: Seaweed
) -> None:
    world = World(db, root, telling=True, short=short, there=fresh_bucket(weed))
    run(LosingBucket, FEW, world, runner)
