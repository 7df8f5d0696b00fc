"""Fixtures everybody shares: one PostgreSQL per test process, a fresh migrated database per test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.migrate import migrate
from safelight.infra.postgres import EmbeddedPostgres

_numbers = itertools.count(1)
# Speed, not durability, where the test itself does not crash the server.
_FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(reachable(tmp_path_factory.mktemp("pg")), extra_settings=_FAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_url(postgres: EmbeddedPostgres) -> str:
    """The server's own database, migrated; tests clone it and leave it alone."""
    asyncio.run(migrate(postgres.url))
    return postgres.url


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """A fresh, migrated, empty database."""
    name = f"test_{next(_numbers)}"
    asyncio.run(_clone(postgres_url, name))
    return with_database(postgres_url, name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    db = await Database.open(database_url, pool_size=5)
    yield db
    db.terminate()


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


async def _clone(url: str, name: str) -> None:
    # A database being copied must have no visitors, so this goes through another one.
    connection = await asyncpg.connect(with_database(url, "postgres"))
    try:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE safelight STRATEGY file_copy")
    finally:
        await connection.close()


def with_database(url: str, name: str) -> str:
    base, _, query = url.partition("?")
    return f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def reachable(path: Path) -> Path:
    """The directories pytest makes are 0700; an unprivileged PostgreSQL must be able to pass."""
    for parent in (path, *path.parents):
        if parent.parent == parent or parent.stat().st_uid != path.stat().st_uid:
            break
        if parent.stat().st_mode & 0o700 == 0o700 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return path
