"""SAFELIGHT_INGEST=direct: 201 means that the bytes are in the store, and anything else that nothing is
kept that would come as a surprise."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from harness import BOOKKEEPING, picture
from ingest.machines import Machine
from inprocess import Application, application
from nursery import bear
from safelight.cli.main import app as command
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.files import joined
from safelight.ingest.accept import Ingest
from safelight.ingest.contract import ANSWER
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.testing.waiting import until


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, worker=True, ingest="direct") as made:
        yield made


async def send(app: Application, **query: str) -> httpx.Response:
    async with app.client() as client:
        files = {"file": ("a.jpg", picture())}
        return await client.post("/api/upload", files=files, params=query)


def hurry(app: Application) -> None:
    """Waits for the store no longer than a moment."""
    direct = app.registry.get(Ingest)._direct
    assert direct
    direct._seconds = 0.2


async def record(app: Application) -> dict[str, Any]:
    row = await app.db.fetchrow("SELECT id, status FROM images ORDER BY created_at DESC LIMIT 1")
    assert row
    return dict(row)


async def content(app: Application) -> bytes | None:
    try:
        store = app.registry.get(ObjectStore)
        return await joined((await store.get("default/a.jpg")).chunks)
    except NoSuchObject:
        return None


def files_left(directory: Path) -> list[str]:
    return [path.name for path in (directory / "ingest").iterdir() if path.name not in BOOKKEEPING]


@pytest.mark.parametrize("query", [{}, {"onConflict": "rename"}])
async def test_answered_when_it_is_stored(app: Application, query: dict[str, str]) -> None:
    """By the short road and by the long one; and what is answered does not change."""
    for _ in range(2):
        answer = await send(app, **query)
        assert (answer.status_code, tuple(answer.json())) == (201, ANSWER)
        assert answer.json()["status"] == "INGESTED"
        found = await record(app)
        assert found == {"id": answer.json()["imageId"], "status": "STORED"}
        assert await content(app) == picture()


async def test_many_at_once(app: Application) -> None:
    answers = await asyncio.gather(*(send(app, name=f"{n}.jpg") for n in range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert await app.db.fetchval("SELECT count(*) FROM images WHERE status <> 'STORED'") == 0


async def test_a_store_that_is_away_is_said_and_nothing_is_kept(
    app: Application, tmp_path: Path
) -> None:
    hurry(app)
    armed = failpoints.arm("ingest.put", "hold@1")
    answer = await send(app)
    assert armed.passes
    assert (answer.status_code, answer.json()["code"]) == (500, "STORAGE_ERROR")
    assert "did not take the image in time" in answer.json()["error"]
    found = await record(app)
    assert found["status"] == "FAILED"
    async with app.client() as client:
        image = (await client.get(f"/api/images/{found['id']}")).json()
        told = (await client.get(f"/api/images/{found['id']}/history")).json()["items"]
    assert image["failure"]["code"] == "STORAGE_ERROR"
    assert [line["type"] for line in told][-1] == "upload_failed"
    assert files_left(tmp_path) == []
    failpoints.disarm("ingest.put")
    assert (await send(app, name="later.jpg")).status_code == 201
    await until(
        lambda: app.db.fetchval("SELECT count(*) = 0 FROM jobs WHERE kind = $1", "ingest.offload")
    )
    assert await content(app) is None
    assert await app.db.fetchval("SELECT sum(bytes) FROM quota_changes") in {None, -len(picture())}


async def test_what_was_stored_at_the_last_moment_is_answered_so(app: Application) -> None:
    hurry(app)
    failpoints.arm("ingest.put", "hold@1")
    armed = failpoints.arm("ingest.direct.withdraw", "hold@1")
    answering = asyncio.create_task(send(app))
    await armed.passed()
    failpoints.disarm("ingest.put")

    async def is_stored() -> bool:
        return bool((await record(app))["status"] == "STORED")

    await until(is_stored)
    failpoints.disarm("ingest.direct.withdraw")
    assert (await answering).status_code == 201
    assert await content(app) == picture()


async def test_nobody_can_tell_without_the_database(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable

    hurry(app)
    failpoints.arm("ingest.put", "hold@1")
    monkeypatch.setattr("safelight.ingest.direct.repo.withdraw", away)
    answer = await send(app)
    failpoints.disarm("ingest.put")
    assert (answer.status_code, answer.json()["code"]) == (500, "DATABASE_ERROR")
    assert "may or may not" in answer.json()["error"]


@pytest.mark.process
@pytest.mark.parametrize("point", ["ingest.put", "ingest.recorded"])
async def test_a_death_in_between_is_made_good_on_the_same_disk(
    database_url: str, database: Database, tmp_path: Path, point: str
) -> None:
    child = bear(
        "ingest.victim:upload_directly", database_url, str(tmp_path), points=f"{point}=exit"
    )
    assert await asyncio.to_thread(child.wait) == EXIT_CODE
    async with application(database_url, tmp_path, worker=True, ingest="direct") as app:

        async def is_stored() -> bool:
            return bool((await record(app))["status"] == "STORED")

        await until(is_stored, 20)


async def test_a_death_with_the_disk_is_given_up(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    """No answer was given, and it says so."""
    child = bear(
        "ingest.victim:upload_directly", database_url, str(tmp_path), points="ingest.put=exit"
    )
    assert await asyncio.to_thread(child.wait) == EXIT_CODE
    await database.execute("UPDATE nodes SET answered = now() - interval '1 minute', worked = NULL")
    node = await database.fetchval("SELECT id FROM nodes")
    other = Machine(database, tmp_path / "other", tmp_path / "blobs")
    assert await other.nodes.give_up(node, 1) == 1
    assert await database.fetchval("SELECT status FROM images") == "FAILED"
    other.yard.directory.close()


def test_a_server_without_a_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_INGEST", "direct")
    result = CliRunner().invoke(command, ["serve", "--no-worker"])
    assert isinstance(result.exception, ConfigurationError)
    assert "--no-worker" in result.exception.message
