"""A desk per test. The database and the children that open untrusted bytes are shared: making them
would take most of the time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from objects.shared import shared_url
from safelight.infra.db import Database
from safelight.sandbox.sandbox import Sandbox
from sandbox.shared import shared_sandbox
from submissions.desk import ORG, Desk

__all__ = ["shared_url"]

_EMPTY = """
DELETE FROM submissions; DELETE FROM approvals; DELETE FROM blocklist;
DELETE FROM submission_policies; DELETE FROM kv; DELETE FROM jobs; DELETE FROM activity;
DELETE FROM uploads; DELETE FROM delete_intents; DELETE FROM images; DELETE FROM artifacts;
DELETE FROM generation_tasks; DELETE FROM generations_inflight;
DELETE FROM objects; DELETE FROM blobs; DELETE FROM object_events;
DELETE FROM object_outbox; DELETE FROM tokens; DELETE FROM sessions; DELETE FROM memberships;
DELETE FROM users; DELETE FROM organizations; UPDATE identity SET bucket = NULL;
DELETE FROM quota_usage; DELETE FROM quota_changes; DELETE FROM quota_limits;
"""


@pytest.fixture
async def database(shared_url: str) -> AsyncIterator[Database]:
    db = await Database.open(shared_url, pool_size=8)
    await db.execute(_EMPTY)
    yield db
    db.terminate()


@pytest.fixture
def database_url(shared_url: str, database: Database) -> str:
    """For processes of their own; emptied like the rest."""
    return shared_url


@pytest.fixture
def sandbox() -> Sandbox:
    return shared_sandbox()


@pytest.fixture
async def desk(database: Database, tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[Desk]:
    made = Desk(database, directory=tmp_path, sandbox=sandbox)
    await made.organization(ORG, "globex")
    yield made
    await made.store.close()
