"""One database for many tests, emptied before each: cloning one would take most of their time."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from safelight.infra.db import Database

_numbers = count(1)
_EMPTY = """
DELETE FROM jobs; DELETE FROM objects; DELETE FROM blobs;
DELETE FROM object_events; DELETE FROM object_outbox; DELETE FROM blob_walks; DELETE FROM activity;
DELETE FROM delete_intents; DELETE FROM images; DELETE FROM kv; DELETE FROM quota_changes;
UPDATE identity SET bucket = NULL;
UPDATE blob_epochs SET epoch = 0 WHERE epoch <> 0;
INSERT INTO organizations (id, created_at) VALUES ('acme', 0), ('zeta', 0) ON CONFLICT DO NOTHING;
"""


async def _clone(url: str, name: str) -> str:
    parts = urlsplit(url)
    # A database being copied must have no visitors, so this goes through another one.
    connection = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    try:
        await connection.execute(
            f"CREATE DATABASE {name} TEMPLATE {parts.path.strip('/')} STRATEGY file_copy"
        )
    finally:
        await connection.close()
    return urlunsplit(parts._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def shared_url(postgres_url: str) -> str:
    return asyncio.run(_clone(postgres_url, f"shared_{next(_numbers)}"))


@pytest.fixture
async def shared(shared_url: str) -> AsyncIterator[Database]:
    db = await Database.open(shared_url, pool_size=10)
    await db.execute(_EMPTY)
    yield db
    db.terminate()
