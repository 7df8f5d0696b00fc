from collections.abc import AsyncIterator

import pytest

from accounts.processes import Asks, process
from accounts.world import World
from safelight.infra.db import Database


@pytest.fixture
async def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def here(database_url: str) -> AsyncIterator[World]:
    async with process(database_url, "here") as world:
        yield world


@pytest.fixture
async def there(database_url: str) -> AsyncIterator[World]:
    async with process(database_url, "there") as world:
        yield world


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> Asks:
    return Asks(monkeypatch)
