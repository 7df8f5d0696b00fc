"""Images that cannot be stored: their owner sees them, is told at once, and no operator has to act."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import picture
from ingest.offloading import Yard
from inprocess import Application, application
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.ingest import repo
from safelight.ingest.lifecycle import ImageStatus
from safelight.testing.waiting import until

LIST = "/api/organizations/default/images"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, worker=True) as running:
        yield running


async def send(client: httpx.AsyncClient, name: str) -> str:
    answer = await client.post("/api/upload", files={"file": (name, picture("PNG"))})
    return str(answer.json()["imageId"])


async def lost(app: Application, client: httpx.AsyncClient, name: str, data_dir: Path) -> str:
    """An image whose file goes right before it would have been stored."""
    armed = failpoints.arm("ingest.put", "hold@1")
    image_id = await send(client, name)
    await armed.passed()
    (data_dir / "ingest" / f"{image_id}.png").unlink()
    failpoints.disarm("ingest.put")
    await status_is(client, image_id, "FAILED")
    return image_id


async def status_is(client: httpx.AsyncClient, image_id: str, status: str) -> None:
    async def reached() -> bool:
        answer = await client.get(f"/api/images/{image_id}")
        return bool(answer.json()["status"] == status)

    await until(reached)


async def test_what_failed_is_listed_told_and_shown(app: Application, tmp_path: Path) -> None:
    async with app.client() as client:
        image_id = await lost(app, client, "lost.png", tmp_path)
        stored = await send(client, "kept.png")
        await status_is(client, stored, "STORED")

        record = (await client.get(f"/api/images/{image_id}")).json()
        assert record["failure"]["code"] == "FILE_MISSING"
        assert "Upload the image again" in record["failure"]["message"]
        failed = (await client.get(LIST, params={"status": "FAILED"})).json()
        assert failed == {"items": [record], "nextCursor": None}
        everything = (await client.get(LIST)).json()["items"]
        assert [item["id"] for item in everything] == [stored, image_id]
        assert "failure" not in everything[0]

        told = (await client.get("/api/organizations/default/activity")).json()["items"]
        [message] = [item for item in told if item["type"] == "upload_failed"]
        assert message["imageId"] == image_id
        assert message["name"] == "lost.png"
        assert message["error"] == record["failure"]
        letters = await client.get("/api/v1/admin/dead-letters")
        assert letters.json()["items"] == []


async def test_wrong_questions(app: Application) -> None:
    async with app.client() as client:
        bad: list[dict[str, Any]] = [
            {"status": "failed"}, {"status": ""}, {"limit": 0}, {"cursor": "x"},
        ]  # fmt: skip
        for params in bad:
            answer = await client.get(LIST, params=params)
            assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")
        assert (await client.get("/api/organizations/other/images")).status_code == 404


async def test_pages_follow_one_another_without_gap_or_repeat(app: Application) -> None:
    async with app.client() as client:
        sent = [await send(client, f"{n}.png") for n in range(7)]
        await app.db.execute("UPDATE images SET created_at = created_at / 1000")  # some share one
        expected = [item["id"] for item in (await client.get(LIST)).json()["items"]]
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await client.get(LIST, params={"limit": "2", **cursor})).json()
            seen += [item["id"] for item in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        wrong = await client.get(LIST, params={"status": "STORED", **cursor})
    assert seen == expected
    assert set(seen) == set(sent)
    assert wrong.status_code == 422, "a cursor belongs to its list"


async def test_the_list_is_the_organizations_own_and_of_the_state(
    database: Database, tmp_path: Path
) -> None:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    yard = Yard(database, tmp_path)
    images = [await yard.receive(f"{n}.jpg", at=1000) for n in range(3)]
    ids = sorted((image.id for image in images), reverse=True)
    await database.execute("UPDATE images SET status = 'FAILED' WHERE id = $1", ids[1])

    async def page(organization: str, status: ImageStatus | None, before: Any = None) -> list[str]:
        found = await repo.page(database, organization, status, before, 9)
        return [image.id for image in found]

    assert await page("acme", None) == ids
    assert await page("acme", ImageStatus.FAILED) == [ids[1]]
    assert await page("acme", ImageStatus.STORED) == []
    assert await page("globex", None) == []
    assert await page("acme", None, (1000, ids[0])) == ids[1:]
    assert await page("acme", None, (999, ids[0])) == []
    await yard.close()
