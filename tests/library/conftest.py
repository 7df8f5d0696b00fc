import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from library.scripted import Scripted
from library.world import World
from safelight.infra.db import Database

MakeWorld = Callable[..., World]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Thousands of deaths are meant."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    monkeypatch.setattr("safelight.wiring.build_classifier", lambda *_: scripted)
    return scripted


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: nothing here outlives the process."""
    memory = Path("/dev/shm")
    directory = Path(
        tempfile.mkdtemp(prefix="safelight-", dir=memory if memory.is_dir() else tmp_path)
    )
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
async def make_world(database: Database, root: Path, quiet: None) -> AsyncIterator[MakeWorld]:
    made: list[World] = []

    def make(**how: Any) -> World:
        made.append(World(database, root, **how))
        return made[-1]

    yield make
    for world in made:
        await world.close()
