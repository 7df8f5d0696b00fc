"""Uploads of one organization that are ready together are recorded by one statement, and each is
answered, refused or looked for by itself."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faults.relay import relay
from ingest.test_accept import EXECUTION, UPLOAD, build, counts, good, left
from ingest.test_unknown_outcomes import SHORT
from safelight.errors import RateLimited
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds
from safelight.ingest.accept import Ingest
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.lifecycle import Image

COMPANY = 6


@pytest.fixture
async def db(database: Database) -> Database:
    await database.execute(
        "INSERT INTO organizations (id, created_at) VALUES ('acme', 0), ('globex', 0)"
    )
    return database


@pytest.fixture
def directory(tmp_path: Path) -> IngestDirectory:
    return IngestDirectory(tmp_path / "ingest", RandomIds())


@pytest.fixture(autouse=True)
def unarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


async def together(ingest: Ingest) -> list[Image | BaseException]:
    """One goes ahead and is held before its statement, until the others are ready behind it."""
    armed = failpoints.arm("ingest.record_uploads", "hold")
    uploads = [asyncio.create_task(ingest.accept(UPLOAD, good()))]
    await armed.passed()
    for number in range(COMPANY):
        upload = replace(UPLOAD, name=f"{number}.png")
        uploads.append(asyncio.create_task(ingest.accept(upload, good())))
    async with asyncio.timeout(20):
        while len(ingest._records._waiting.get("acme", ())) < COMPANY:
            await asyncio.sleep(0.01)
    failpoints.disarm()
    return await asyncio.gather(*uploads, return_exceptions=True)


async def test_one_statement_for_all_that_wait(db: Database, directory: IngestDirectory) -> None:
    images = await together(build(db, directory))
    assert all(isinstance(image, Image) for image in images)
    assert await counts(db) == (1 + COMPANY, 1 + COMPANY, 2 * (1 + COMPANY))
    assert await db.fetchval("SELECT count(DISTINCT xmin::text) FROM images") == 2
    assert await db.fetchval("SELECT used FROM quota_usage WHERE meter = 'uploads_per_minute'") == 7
    bytes_used = await db.fetchval("SELECT used FROM quota_usage WHERE meter = 'stored_bytes'")
    assert bytes_used == await db.fetchval("SELECT sum(size_bytes) FROM images")


async def test_whoever_is_beyond_the_limit_is_refused_alone(
    db: Database, directory: IngestDirectory
) -> None:
    await db.execute("INSERT INTO quota_limits VALUES ('acme', 'uploads_per_minute', 4)")
    answers = await together(build(db, directory))
    refused = [each for each in answers if isinstance(each, RateLimited)]
    accepted = [each for each in answers if isinstance(each, Image)]
    assert (len(accepted), len(refused)) == (4, 3)
    assert sorted(left(directory)) == sorted(f"{image.id}.png" for image in accepted)
    assert await counts(db) == (4, 4, 8)


async def test_another_organization_does_not_wait(db: Database, directory: IngestDirectory) -> None:
    ingest = build(db, directory)
    armed = failpoints.arm("ingest.record_uploads", "hold@1")
    held = asyncio.create_task(ingest.accept(UPLOAD, good()))
    await armed.passed()
    async with asyncio.timeout(20):
        other = await ingest.accept(replace(UPLOAD, organization="globex"), good())
    assert other.organization == "globex"
    failpoints.disarm()
    await held


async def test_an_answer_that_never_comes_is_looked_for_by_each(
    db: Database, directory: IngestDirectory
) -> None:
    async with relay(db.url) as (line, through):
        lossy = await Database.open(through, pool_size=4, limits=SHORT)
        ingest = build(lossy, directory)
        line.silence_at(EXECUTION)
        images = await together(ingest)
        assert line.fell_silent.is_set()
        lossy.terminate()
    assert all(isinstance(image, Image) for image in images), images
    assert len(left(directory)) == 1 + COMPANY
    assert await counts(db) == (1 + COMPANY, 1 + COMPANY, 2 * (1 + COMPANY))


async def test_what_is_sent_again_is_recorded_once(
    db: Database, directory: IngestDirectory
) -> None:
    """One that the database refuses is in everybody's way, and then in nobody's but its own."""
    ingest = build(db, directory)
    await db.execute(
        "ALTER TABLE images ADD CONSTRAINT odd CHECK (name <> '3.png')"  # one of them is refused
    )
    answers = await together(ingest)
    assert sum(isinstance(each, Image) for each in answers) == COMPANY
    assert await counts(db) == (COMPANY, COMPANY, 2 * COMPANY)
    assert len(left(directory)) == COMPANY
