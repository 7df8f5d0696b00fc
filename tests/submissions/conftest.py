"""A desk per test; the process that opens untrusted bytes is shared, since starting it takes time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from safelight.infra.db import Database
from safelight.sandbox.sandbox import Sandbox
from submissions.desk import ORG, Desk


@pytest.fixture(scope="session")
def server() -> Iterator[Sandbox]:
    shared = Sandbox()
    asyncio.run(shared.run("inspect", b"", max_pixels=1, max_frames=1, max_total_pixels=1))
    yield shared
    asyncio.run(shared.close())


@pytest.fixture
def sandbox(server: Sandbox) -> Sandbox:
    """Of this test's event loop, on the shared process."""
    mine = Sandbox()
    mine._server, mine._control = server._server, server._control
    return mine


@pytest.fixture
async def desk(database: Database, tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[Desk]:
    made = Desk(database, directory=tmp_path, sandbox=sandbox)
    await made.organization(ORG, "globex")
    yield made
    await made.store.close()
