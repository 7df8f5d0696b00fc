"""Small pictures of artifacts: made once, when somebody first asks, and gone with their artifact."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from generations.world import Client, World, world
from harness import picture
from holding import waits
from safelight.accounts.access import Role
from safelight.errors import NotFound
from safelight.generations.artifacts import repo as library
from safelight.generations.artifacts.thumbnails import repo
from safelight.generations.artifacts.thumbnails.thumbnails import ArtifactThumbnails
from safelight.generations.lifecycle import Artifact, key_of
from safelight.infra.db import Database
from safelight.objects.store import Facts
from safelight.sandbox.protocol import FaultKind
from safelight.sandbox.sandbox import ChildrenAway, Sandbox, TaskDied

PHOTO = picture("JPEG", (800, 600))


@pytest.fixture
async def made(database_url: str, directory: Path) -> AsyncIterator[World]:
    async with world(database_url=database_url, directory=directory) as made:
        yield made


def an_artifact(artifact_id: str = "a", kind: str = "image/jpeg", size: int = 9) -> Artifact:
    return Artifact(artifact_id, "acme", "g", kind, size, "c" * 64, {}, 1)


async def keep(made: World, artifact: Artifact, content: bytes = PHOTO) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    await made.store.put(key_of(artifact.id), chunks(), Facts(artifact.content_type))
    async with made.db.transaction() as connection:
        await library.add(connection, artifact)


async def kept(db: Database) -> list[str]:
    rows = await db.fetch("SELECT artifact_id FROM artifact_thumbnails ORDER BY artifact_id")
    return [row["artifact_id"] for row in rows]


async def test_one_is_made_for_all_who_ask(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0
    draw = Sandbox.thumbnail

    async def counting(self: Sandbox, *given: Any) -> bytes | None:
        nonlocal drawn
        drawn += 1
        return await draw(self, *given)

    monkeypatch.setattr(Sandbox, "thumbnail", counting)
    await keep(made, an_artifact())
    async with made.client(role=Role.VIEWER) as client, made.client("globex") as other:
        path = "/artifacts/a/thumbnail"
        answers = await asyncio.gather(*(client.http.get(path) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        assert Image.open(io.BytesIO(answers[0].content)).size == (320, 240)
        assert answers[0].headers["cache-control"] == "private, no-cache"
        again = await client.http.get(path, params={"v": "c" * 64, "size": "320"})
        assert again.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert again.content == answers[0].content
        etag = {"if-none-match": again.headers["etag"]}
        assert (await client.http.get(path, headers=etag)).status_code == 304
        assert drawn == 1
        assert (await other.http.get(path)).status_code == 404
        assert (await client.http.get(path, params={"size": "9"})).status_code == 422
        assert await kept(made.db) == ["a"]
    async with made.client() as member:
        assert (await member.http.delete("/artifacts/a")).status_code == 204
    assert await kept(made.db) == []


async def test_what_has_none(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep(made, an_artifact("clip", "video/webm"))
    await keep(made, an_artifact("huge", size=300 * 1024 * 1024))
    await keep(made, an_artifact("broken"), b"\xff\xd8\xff but no more")
    async with made.db.transaction() as connection:
        await library.add(connection, an_artifact("lost"))

    async def status(client: Client, artifact_id: str) -> int:
        return (await client.http.get(f"/artifacts/{artifact_id}/thumbnail")).status_code

    async with made.client() as client:
        for artifact_id in ("clip", "huge", "broken", "broken", "lost"):
            assert await status(client, artifact_id) == 404
        await keep(made, an_artifact("b"))
        fails: list[tuple[Exception, int]] = [
            (ChildrenAway(), 503),
            (TaskDied(FaultKind.CRASH), 404),
        ]
        for error, answer in fails:

            async def fail(*_: object, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(Sandbox, "thumbnail", fail)
            assert await status(client, "b") == answer
    assert await kept(made.db) == []


async def test_without_drawing_what_is_there_is_shown(made: World) -> None:
    await keep(made, an_artifact())
    thumbnails = ArtifactThumbnails(made.db, made.store, Sandbox(), drawing=False)
    with pytest.raises(NotFound):
        await thumbnails.find(an_artifact())
    await repo.keep(made.db, "a", b"small")
    assert await thumbnails.find(an_artifact()) == b"small"


async def test_the_first_stays_and_none_outlives_its_artifact(database: Database) -> None:
    async with database.transaction() as connection:
        await library.add(connection, an_artifact("a"))
        await library.add(connection, an_artifact("b"))
    await repo.keep(database, "a", b"1")
    await repo.keep(database, "a", b"2")
    await repo.keep(database, "gone", b"3")
    assert await repo.find(database, "a") == b"1"
    assert await repo.find(database, "b") is None
    assert await kept(database) == ["a"]


async def test_one_that_is_being_deleted_gets_none(database: Database) -> None:
    async with database.transaction() as connection:
        await library.add(connection, an_artifact("a"))
    assert await waits(
        database,
        lambda connection: library.remove(connection, "a", 1),
        lambda connection: repo.keep(connection, "a", b"1"),
    )
    await repo.keep(database, "a", b"1")
    assert await kept(database) == []
