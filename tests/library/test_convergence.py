"""Whatever is lost, repeated, reordered or killed: in the end the library is what the store holds."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from library.machine import BuiltInStore, Machine, TellingBucket
from library.world import World
from safelight.infra.db import Database

SETTINGS = settings(
    max_examples=300,
    stateful_step_count=16,
    deadline=None,
    derandomize=False,
    print_blob=True,
    phases=(Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: power cuts are not tested here."""
    shm = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else tmp_path))
    yield directory
    shutil.rmtree(directory)


def run(
    machine: type[Machine], url: str, runner: asyncio.Runner, root: Path, *, remote: bool = False
) -> None:
    db = runner.run(Database.open(url, pool_size=4))
    world = World(db, root, telling=machine is TellingBucket, remote=remote)
    try:
        run_state_machine_as_test(lambda: machine(world, runner), settings=SETTINGS)
    finally:
        runner.run(world.close())
        db.terminate()


@pytest.mark.parametrize("remote", [False, True])
def test_built_in(remote: bool, database_url: str, runner: asyncio.Runner, root: Path) -> None:
    run(BuiltInStore, database_url, runner, root, remote=remote)


def test_telling(database_url: str, runner: asyncio.Runner, root: Path) -> None:
    run(TellingBucket, database_url, runner, root)
