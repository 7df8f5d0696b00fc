"""Fixtures everybody shares: one PostgreSQL per test process, a fresh migrated database per test."""

import asyncio
import itertools
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import asyncpg
import pytest

import sound
from points import all_points, sources
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.migrate import migrate
from safelight.infra.postgres.server import EmbeddedPostgres
from seaweed import Seaweed, seaweed

_numbers = itertools.count(1)
_MEMORY, _ROOM = Path("/dev/shm"), 4 * 1024**3
# Speed, not durability, where the test itself does not crash the server.
_FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


# A run must not end with one of these alone on one core.
_LONGEST = {
    "test_convergence.py", "test_crash_points.py", "test_fuzz.py", "test_fuzz_pages.py",
    "test_killed.py", "test_storm.py", "test_workers.py",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with a browser come first of all: what one process begins with no other takes from it, and
    each that had some of them would need a browser and a server of its own."""
    items.sort(
        key=lambda item: (item.path.parent.name != "browser", item.path.name not in _LONGEST)
    )


@pytest.fixture(scope="session", autouse=True)
def _certificates() -> Iterator[None]:
    """The system's, read once: every client that is made reads them, even if it is for a plain
    address, and that takes longer than most of its requests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    with reachable_directory() as directory:
        server = EmbeddedPostgres(directory / "data", extra_settings=_FAST)
        server.start()
        yield server
        if server.pid:  # nothing in it is worth a checkpoint
            os.kill(server.pid, signal.SIGQUIT)
        server.stop()


@pytest.fixture(scope="session")
def postgres_url(postgres: EmbeddedPostgres) -> str:
    """The server's own database, migrated; tests leave it alone."""
    asyncio.run(migrate(postgres.url))
    return postgres.url


@pytest.fixture(scope="session")
def model_url(postgres_url: str) -> str:
    """What is cloned for tests: the same, with rules for its rows."""
    asyncio.run(_clone(postgres_url, "model", of="safelight"))
    asyncio.run(sound.check(with_database(postgres_url, "model")))
    return postgres_url


@pytest.fixture
def database_url(model_url: str) -> Iterator[str]:
    """A fresh, migrated, empty database."""
    name = f"test_{next(_numbers)}"
    asyncio.run(_clone(model_url, name))
    yield with_database(model_url, name)
    # Hundreds of them would fill the disk, and take a minute to remove at the end.
    asyncio.run(_administer(model_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    db = await Database.open(database_url, pool_size=5)
    yield db
    db.terminate()


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No point stays armed; and one that is not there any more is not armed in vain."""
    arm = failpoints.arm

    def arm_what_there_is(name: str, action: str) -> failpoints.Armed:
        assert name in known_points() or name.startswith("test"), f"there is no failpoint {name}"
        return arm(name, action)

    monkeypatch.setattr(failpoints, "arm", arm_what_there_is)
    yield
    failpoints.disarm()


@cache
def known_points() -> frozenset[str]:
    return frozenset(point.name for point in all_points(sources()))


async def _clone(url: str, name: str, of: str = "model") -> None:
    await _administer(url, f"CREATE DATABASE {name} TEMPLATE {of} STRATEGY file_copy")


async def _administer(url: str, statement: str) -> None:
    # A database being copied must have no visitors, so this goes through another one.
    connection = await asyncpg.connect(with_database(url, "postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def with_database(url: str, name: str) -> str:
    base, _, query = url.partition("?")
    return f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


@contextmanager
def reachable_directory() -> Iterator[Path]:
    """The ones pytest makes are 0700; an unprivileged PostgreSQL must be able to pass. In memory where
    there is room: cloning a database takes a tenth of the time there."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    with tempfile.TemporaryDirectory(prefix="safelight-", dir=_MEMORY if roomy else None) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="session")
def weed() -> Iterator[Seaweed]:
    """An S3 server for whoever wants more of one than moto; its buckets are the tests'."""
    with seaweed() as server:
        yield server


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """For servers that bring their own PostgreSQL."""
    with reachable_directory() as directory:
        yield directory / "data"
