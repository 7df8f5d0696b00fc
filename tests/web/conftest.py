import pytest

from accounts.world import World
from safelight.infra.db import Database


@pytest.fixture
async def world(database: Database) -> World:
    return World(database)
