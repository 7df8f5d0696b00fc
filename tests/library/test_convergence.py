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
from library.test_mutations import fence
from library.world import World
from safelight.infra.db import Database

MANY = settings(
    max_examples=70,
    stateful_step_count=6,
    deadline=None,  # a statement may wait for a busy machine
    derandomize=False,
    print_blob=True,
    phases=(Phase.reuse, Phase.generate, Phase.shrink),
    # Examples are slow and large because each is a life of a library in a real database.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEWER = settings(MANY, max_examples=50)  # each of them is longer
UNTIL_IT_FAILS = settings(MANY, phases=(Phase.generate,), print_blob=False)
SHRINKING_SECONDS = 20
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    engine = "hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS"
    monkeypatch.setattr(engine, SHRINKING_SECONDS, raising=False)  # within a test's own limit
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture
def db(database_url: str, runner: asyncio.Runner) -> Iterator[Database]:
    db = runner.run(Database.open(database_url, pool_size=4))
    yield db
    db.terminate()


def run(machine: type[Machine], how: settings, world: World, runner: asyncio.Runner) -> None:
    bound = type(machine.__name__, (machine,), {"world": world, "runner": runner})
    try:
        run_state_machine_as_test(bound, settings=how)
    finally:
        runner.run(world.close())


@pytest.mark.parametrize("part", range(4))
def test_the_built_in_store(part: int, db: Database, runner: asyncio.Runner, root: Path) -> None:
    """On either road, as everywhere below."""
    run(BuiltInStore, MANY, World(db, root, short=part % 2 == 1), runner)


def test_a_remote_model(db: Database, runner: asyncio.Runner, root: Path) -> None:
    run(BuiltInStore, MANY, World(db, root, remote=True, short=True), runner)


@pytest.mark.parametrize("part", range(2))
def test_a_telling_bucket(part: int, db: Database, runner: asyncio.Runner, root: Path) -> None:
    run(TellingBucket, FEWER, World(db, root, telling=True, short=part == 1), runner)


def test_without_the_fence_it_fails(
    db: Database, runner: asyncio.Runner, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine finds by itself what is wrong then."""
    runner.run(fence(db, monkeypatch))
    with pytest.raises(AssertionError):
        run(BuiltInStore, UNTIL_IT_FAILS, World(db, root), runner)
