"""No lock for which an organization waits spans a round trip: journeys through the whole application
with an eye on every transaction."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from faults.held import watched
from inprocess import Application, application
from objects.stores import fresh_bucket
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.infra.injected import RandomIds
from safelight.infra.metrics import Metrics
from safelight.objects.blobs import Blobs
from safelight.objects.upkeep import Scrub
from safelight.testing.waiting import until
from seaweed import Seaweed

PHOTOS = Path(__file__).parent.parent / "photos"
CAT = (PHOTOS / "cat.jpg").read_bytes()
DAISY = (PHOTOS / "daisy.jpg").read_bytes()
SMALL = {"prompt": "p", "width": 64, "height": 64}
pytestmark = pytest.mark.timeout(120)


async def upload(client: httpx.AsyncClient, name: str, content: bytes, **query: str) -> int:
    answer = await client.post("/api/upload", files={"file": (name, content)}, params=query)
    return answer.status_code


async def status_of(client: httpx.AsyncClient, name: str) -> str | None:
    answer = await client.get(f"/api/organizations/default/uploads/{name}")
    status: str | None = answer.json().get("classificationStatus")
    return status


async def labelled(client: httpx.AsyncClient, name: str, status: str = "done") -> None:
    async def is_so() -> bool:
        return await status_of(client, name) == status

    await until(is_so, 60)


async def uploads(client: httpx.AsyncClient) -> None:
    """In all three ways, over what is there, and away again."""
    assert await upload(client, "cat.jpg", CAT) == 201
    await labelled(client, "cat.jpg")
    assert await upload(client, "cat.jpg", DAISY) == 201
    assert await upload(client, "cat.jpg", CAT, onConflict="rename") == 201
    assert await upload(client, "cat.jpg", CAT, onConflict="refuse") == 409
    assert await upload(client, "daisy.jpg", DAISY, onConflict="refuse") == 201
    for name in ("cat.jpg", "cat (2).jpg", "daisy.jpg"):
        await labelled(client, name)
    assert (await client.delete("/api/organizations/default/uploads/cat.jpg")).status_code == 202
    await until(lambda: _gone(client, "cat.jpg"))


async def _gone(client: httpx.AsyncClient, name: str) -> bool:
    answer = await client.get(f"/api/organizations/default/uploads/{name}")
    return answer.status_code == 404


async def failures(app: Application, client: httpx.AsyncClient) -> None:
    """A picture nobody can look at, a dead letter, and another try."""
    assert await upload(client, "torn.jpg", CAT[: len(CAT) // 3]) == 201

    async def letters() -> Any:
        found = (await client.get("/api/organizations/default/dead-letters")).json()
        return found["items"]

    async def failed() -> bool:
        return await status_of(client, "torn.jpg") in {"failed", "done"}

    await until(failed, 60)
    await app.db.execute(
        "INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, "
        "attempts, error, died_at) SELECT 'submissions.process', 'default', '', "
        "'{\"submissionId\": \"sub_none\"}', 'sub_none', 0, 'dead', now(), 5, "
        '\'{"code": "E", "message": "It broke."}\', now()'
    )
    [letter, *_] = await until(letters)
    again = await client.post(f"/api/organizations/default/dead-letters/{letter['id']}/redrive")
    assert again.status_code == 202


async def generation(client: httpx.AsyncClient) -> None:
    body = {"model": "studio/aurora", "input": SMALL}
    made = (await client.post("/generations", json=body)).json()

    async def over() -> bool:
        now = (await client.get(f"/generations/{made['id']}")).json()
        return bool(now["completedAt"])

    await until(over, 60)
    [artifact] = (await client.get(f"/generations/{made['id']}/artifacts")).json()["items"]
    assert (await client.delete(f"/artifacts/{artifact['id']}")).status_code == 204


async def publication(client: httpx.AsyncClient) -> None:
    """Everything is put before a person."""
    policy = "/api/organizations/default/submission-policy"
    assert (await client.put(policy, json={"safetyReview": 0})).status_code == 200
    body = {"source": {"upload": "daisy.jpg"}}
    made = (await client.post("/api/v1/submissions", json=body)).json()

    async def state() -> str:
        return str((await client.get(f"/api/v1/submissions/{made['id']}")).json()["state"])

    async def asked() -> Any:
        return (await client.get("/api/organizations/default/approvals")).json()["items"]

    [approval] = await until(asked, 60)
    approved = await client.post(f"/api/organizations/default/approvals/{approval['id']}/approve")
    assert approved.status_code == 200

    async def is_published() -> bool:
        return await state() == "PUBLISHED"

    await until(is_published, 60)
    withdrawn = await client.post(f"/api/v1/submissions/{made['id']}/withdraw", json={})
    assert withdrawn.status_code == 200


async def damage(app: Application, data_dir: Path) -> None:
    """A blob of a name that stays is found to be torn, and told of: in a round of its own, since one
    begins at every full hour, and the next a week later."""
    blob = await app.db.fetchval("SELECT blob FROM objects WHERE key = 'default/daisy.jpg'")
    path = data_dir / "blobs" / blob[:2] / blob
    path.unlink()
    path.write_bytes(b"torn")
    units = app.registry.get(Units)
    await app.db.execute("DELETE FROM blob_walks")
    await Scrub(units, Blobs(data_dir / "blobs", RandomIds()), Metrics()).run()
    told = "SELECT count(*) FROM activity WHERE type = 'original_damaged'"
    assert await app.db.fetchval(told)


async def test_no_lock_spans_a_round_trip(database_url: str, tmp_path: Path) -> None:
    async with (
        watched(database_url) as watch,
        application(database_url, tmp_path, worker=True) as app,
        app.client() as client,
    ):
        await uploads(client)
        await failures(app, client)
        await generation(client)
        await publication(client)
        await damage(app, tmp_path)
    assert sum(watch.looks.values()) > 100, watch.looks


async def test_nor_with_a_bucket(database_url: str, tmp_path: Path, weed: Seaweed) -> None:
    url = fresh_bucket(weed).url()
    async with (
        watched(database_url) as watch,
        application(database_url, tmp_path, worker=True, object_store_url=url) as app,
        app.client() as client,
    ):
        await uploads(client)
        await generation(client)
        await publication(client)
    assert sum(watch.looks.values()) > 50, watch.looks


async def test_the_eye_sees_a_lock_that_is_held(database_url: str, tmp_path: Path) -> None:
    """What a unit of work did before: its history, and COMMIT in a message of its own."""
    with pytest.raises(AssertionError, match="lock after SELECT unit_finish"):
        async with watched(database_url), application(database_url, tmp_path) as app:
            units = app.registry.get(Units)
            async with units.open("default") as unit:
                unit.tell(Line("image:1", "first"))
                await unit.connection.execute(unit._closing())
