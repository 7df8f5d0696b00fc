"""One database for many tests, emptied before each: cloning one would take most of their time."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from conftest import _clone as clone
from conftest import with_database
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


@pytest.fixture(scope="session")
def shared_url(model_url: str) -> str:
    name = f"shared_{next(_numbers)}"
    asyncio.run(clone(model_url, name))
    return with_database(model_url, name)


@pytest.fixture
async def shared(shared_url: str) -> AsyncIterator[Database]:
    db = await Database.open(shared_url, pool_size=10)
    await db.execute(_EMPTY)
    yield db
    db.terminate()
