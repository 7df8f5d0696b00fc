"""Scanners that hang, fail, eat memory and die: a finding where the file is to blame, a retry where
it is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from safelight.infra.db import Database
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.sandbox import Sandbox
from submissions.desk import ORG, Desk
from submissions.pictures import photo

LIMITS = SandboxLimits(memory_bytes=256 * 1024 * 1024, cpu_seconds=1, wall_seconds=40)
HASTY = SandboxLimits(wall_seconds=0.5)


@asynccontextmanager
async def sabotaged(
    database: Database, directory: Path, limits: SandboxLimits
) -> AsyncIterator[Desk]:
    sandbox = Sandbox(limits, tasks="submissions.saboteur")
    made = Desk(database, directory=directory, sandbox=sandbox)
    await made.organization(ORG)
    yield made
    await sandbox.close()
    await made.store.close()


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Desk]:
    async with sabotaged(database, tmp_path, LIMITS) as made:
        yield made


async def test_what_the_file_is_to_blame_for(desk: Desk) -> None:
    for order, words in (
        (b"INSPECT:eat", "more memory than is allowed"),
        (b"INSPECT:crash", "makes image decoders fail"),
        (b"INSPECT:burn", "takes too long"),
        (b"INSPECT:lie", "makes image decoders fail"),
        (b"INSPECT:invent", "makes image decoders fail"),
        (b"RENDER:lie", "makes image decoders fail"),
        (b"RENDER:invent", "makes image decoders fail"),
        (b"RENDER:eat", "more memory than is allowed"),
        (b"RENDER:crash", "makes image decoders fail"),
    ):
        submission = await desk.submit(photo() + b"\0" * 8 + order + b"\0" * 8)
        await desk.work()
        body = await desk.see(submission)
        assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "MALFORMED"), order
        assert words in body["rejection"]["message"]
        assert await desk.jobs() == []
    assert await desk.db.fetchval("SELECT count(*) FROM kv WHERE key ~ '^tm:'") == 0


@pytest.mark.parametrize(
    ("order", "kind"), [(b"INSPECT:hang", "SCAN_TIMEOUT"), (b"RENDER:killed", "STORAGE_ERROR")]
)
async def test_what_it_is_not_to_blame_for(
    database: Database, tmp_path: Path, order: bytes, kind: str
) -> None:
    limits = HASTY if b"hang" in order else LIMITS
    async with sabotaged(database, tmp_path, limits) as desk:
        submission = await desk.submit(photo() + order)
        await desk.work()
        assert "rejection" not in await desk.see(submission)
        record = await desk.value(f"inflight:{submission}")
        assert record["error"]["classification"] == kind
        desk.clock.advance(minutes=6)
        assert await desk.recovery.run() == 1
