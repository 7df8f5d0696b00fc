import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.postgres.clusters import Beginner, Life, Starter, execute
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.testing.waiting import eventually


@pytest.fixture
def place() -> Iterator[Path]:
    """Like tmp_path, which is closed to PostgreSQL's user when the tests run as root."""
    path = Path(tempfile.mkdtemp(prefix="sl-")).resolve()
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """With a cluster in it, which takes a second to make; a test that spoils it takes a copy."""
    path = Path(tempfile.mkdtemp(prefix="sl-")).resolve()
    path.chmod(0o711)
    server = EmbeddedPostgres(path / "data")
    asyncio.run(execute(server.start(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)"))
    server.stop()
    yield path / "data"
    shutil.rmtree(path)


@pytest.fixture
def starter() -> Iterator[Starter]:
    servers = []

    def start(path: Path, **options: Any) -> EmbeddedPostgres:
        server = EmbeddedPostgres(path, **options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def life() -> Iterator[Beginner]:
    lives = []

    def begin(path: Path, **options: Any) -> Life:
        lives.append(Life(path, **options))
        return lives[-1]

    yield begin
    for each in lives:
        each.kill()
        eventually(each.is_over)
