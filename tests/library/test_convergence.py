"""Whatever is lost, repeated, reordered or killed: in the end the library is what the store holds,
each upload was classified once, and what was deleted stays deleted."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from library.machine import BuiltInStore, Machine, TellingBucket
from library.world import World
from safelight.infra.db import Database

SETTINGS = settings(
    max_examples=300,
    stateful_step_count=8,
    deadline=None,  # a statement may wait for a busy machine
    derandomize=False,
    print_blob=True,
    phases=(Phase.reuse, Phase.generate, Phase.shrink),
    # Examples are slow and large because each is a life of a library in a real database.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SHRINKING_SECONDS = 20
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    engine = "hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS"
    monkeypatch.setattr(engine, SHRINKING_SECONDS, raising=False)  # within a test's own limit
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


def run(
    machine: type[Machine], url: str, runner: asyncio.Runner, root: Path, *, remote: bool = False
) -> None:
    db = runner.run(Database.open(url, pool_size=4))
    world = World(db, root, telling=machine is TellingBucket, remote=remote)
    try:
        bound = type(machine.__name__, (machine,), {"world": world, "runner": runner})
        run_state_machine_as_test(bound, settings=SETTINGS)
    finally:
        runner.run(world.close())
        db.terminate()


@pytest.mark.parametrize("part", range(4))
def test_the_built_in_store(
    part: int, database_url: str, runner: asyncio.Runner, root: Path
) -> None:
    run(BuiltInStore, database_url, runner, root)


def test_a_remote_model(database_url: str, runner: asyncio.Runner, root: Path) -> None:
    run(BuiltInStore, database_url, runner, root, remote=True)


@pytest.mark.parametrize("part", range(2))
def test_a_telling_bucket(part: int, database_url: str, runner: asyncio.Runner, root: Path) -> None:
    run(TellingBucket, database_url, runner, root)
