import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from conftest import _clone as clone
from conftest import with_database
from emulators.replicate import Replicate, replicate
from emulators.runware import Runware, runware

# Cloning a database for every test would take most of the time.
_EMPTY = """
DELETE FROM jobs; DELETE FROM kv; DELETE FROM activity; DELETE FROM tags; DELETE FROM artifacts;
DELETE FROM deleted_artifacts; DELETE FROM generations; DELETE FROM generations_inflight;
DELETE FROM object_outbox; UPDATE identity SET bucket = NULL;
DELETE FROM objects; DELETE FROM blobs; DELETE FROM object_events; DELETE FROM job_schedules;
"""


@pytest.fixture(scope="session")
def shared_url(model_url: str) -> str:
    asyncio.run(clone(model_url, "generations"))
    return with_database(model_url, "generations")


@pytest.fixture
def database_url(shared_url: str) -> str:
    asyncio.run(_emptied(shared_url))
    return shared_url


async def _emptied(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(_EMPTY)
    await connection.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
async def vendor() -> AsyncIterator[Runware]:
    async with runware() as emulator:
        yield emulator


@pytest.fixture
async def predictor() -> AsyncIterator[Replicate]:
    async with replicate() as emulator:
        yield emulator
