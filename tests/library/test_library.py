"""The library over the wire: what is stored is listed, served and deleted for good."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import picture
from inprocess import Application, application

PHOTOS = Path(__file__).parents[1] / "photos"
LIBRARY = "/api/organizations/default/uploads"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, worker=True, events_token="e" * 20) as app:
        yield app


@pytest.fixture
async def client(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    async with app.client() as client:
        yield client


async def upload(client: httpx.AsyncClient, name: str, content: bytes | None = None) -> dict[str, Any]:
    files = {"file": (name, content or picture())}
    answer = await client.post("/api/upload", files=files)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def until(check: Callable[[], Awaitable[Any]], seconds: float = 20) -> Any:
    async with asyncio.timeout(seconds):
        while not (answer := await check()):
            await asyncio.sleep(0.02)
    return answer


async def entry(client: httpx.AsyncClient, name: str) -> dict[str, Any] | None:
    answer = await client.get(f"{LIBRARY}/{name}")
    body: dict[str, Any] = answer.json()
    return body if answer.status_code == 200 else None


async def classified(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    async def check() -> Any:
        found = await entry(client, name)
        return found if found and found["classificationStatus"] == "done" else None

    found: dict[str, Any] = await until(check)
    return found


async def story(client: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(f"{LIBRARY}/{name}/history")).json()["items"]
    return items


@pytest.mark.parametrize(
    ("photo", "labels"),
    [
        ("cat.jpg", {"TABBY", "TIGER CAT", "EGYPTIAN CAT"}),
        ("coffee.jpg", {"ESPRESSO", "CUP", "COFFEE MUG"}),
        ("daisy.jpg", {"DAISY"}),
    ],
)
async def test_photographs_get_sensible_labels(
    client: httpx.AsyncClient, photo: str, labels: set[str]
) -> None:
    image = await upload(client, photo, (PHOTOS / photo).read_bytes())
    found = await classified(client, photo)
    assert found["classificationLabel"] in labels
    assert 0 < found["classificationScore"] <= 1
    assert found["classificationModel"].startswith("efficientnet-lite0@")
    assert found["imageId"] == image["imageId"]
    assert [item["type"] for item in await story(client, photo)] == [
        "upload_ingested",
        "upload_stored",
        "classification_workflow_started",
        "classification_updated",
    ]


async def test_content_ranges_and_etags(client: httpx.AsyncClient) -> None:
    content = picture("PNG", (300, 200))
    await upload(client, "a b ü.png", content)
    path = f"{LIBRARY}/a b ü.png/content"
    await until(lambda: status_is(client, path, 200))
    whole = await client.get(path)
    assert whole.content == content
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]
    etag = whole.headers["etag"]
    part = await client.get(path, headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, content[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(content)}"
    last = await client.get(path, headers={"range": "bytes=-5"})
    assert last.content == content[-5:]
    same = await client.get(path, headers={"if-none-match": etag})
    assert (same.status_code, same.content) == (304, b"")
    beyond = await client.get(path, headers={"range": f"bytes={len(content)}-"})
    assert (beyond.status_code, beyond.json()["code"]) == (416, "RANGE_NOT_SATISFIABLE")
    changed = await client.get(path, headers={"range": "bytes=0-1", "if-range": '"other"'})
    assert changed.status_code == 200
    head = await client.head(path)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(content)))


async def status_is(client: httpx.AsyncClient, path: str, status: int) -> bool:
    return (await client.get(path)).status_code == status


async def test_listing_searching_and_paging(client: httpx.AsyncClient) -> None:
    names = [f"holiday_{n:02}.jpg" for n in range(7)] + ["Crème brûlée.jpg"]
    for name in names:
        await upload(client, name)
    for name in names:
        await classified(client, name)
    seen, cursor = [], None
    while True:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(LIBRARY, params=params)).json()
        seen += [item["name"] for item in page["items"]]
        if seen and len(seen) == 3:
            await upload(client, "newer.jpg")  # does not disturb a page that is under way
            await classified(client, "newer.jpg")
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(names)

    async def found(**params: str) -> set[str]:
        answer = (await client.get(LIBRARY, params=params)).json()
        return {item["name"] for item in answer["items"]}

    assert await found(q="holi 03") == {"holiday_03.jpg"}
    assert await found(q="creme brul") == {"Crème brûlée.jpg"}
    assert await found(q="holiday nothing") == set()
    assert len(await found(status="done")) == 9
    assert await found(status="failed") == set()
    label = (await entry(client, names[0]) or {})["classificationLabel"]
    assert names[0] in await found(label=label)
    for bad in ({"limit": 0}, {"cursor": "x"}, {"status": "maybe"}, {"q": "..."}):
        assert (await client.get(LIBRARY, params=bad)).status_code == 422


async def test_deleting(client: httpx.AsyncClient) -> None:
    await upload(client, "a.jpg")
    await classified(client, "a.jpg")
    gone = await client.delete(f"{LIBRARY}/a.jpg")
    assert (gone.status_code, gone.json()) == (202, {})
    assert (await client.get(f"{LIBRARY}/a.jpg/content")).status_code == 404
    await until(lambda: status_is(client, f"{LIBRARY}/a.jpg", 404))
    assert (await client.delete(f"{LIBRARY}/a.jpg")).status_code == 202
    assert (await story(client, "a.jpg"))[-1]["type"] != "classification_updated"
    assert (await client.delete(f"{LIBRARY}/never.jpg")).status_code == 404
    assert (await client.get(f"{LIBRARY}/never.jpg/history")).status_code == 404
    again = picture("PNG")
    await upload(client, "a.jpg", again)
    await classified(client, "a.jpg")
    content = (await client.get(f"{LIBRARY}/a.jpg/content")).content
    assert hashlib.sha256(content).digest() == hashlib.sha256(again).digest()


async def test_an_image_that_cannot_be_decoded_fails_alone(
    app: Application, client: httpx.AsyncClient
) -> None:
    broken = picture("JPEG", (200, 200))[:700]
    await upload(client, "broken.jpg", broken)
    await upload(client, "fine.jpg")
    await classified(client, "fine.jpg")

    async def failed() -> Any:
        found = await entry(client, "broken.jpg")
        return found and found["classificationStatus"] == "failed"

    await until(failed)
    letters = (await client.get("/api/organizations/default/dead-letters")).json()["items"]
    assert [letter["error"]["code"] for letter in letters] == ["UNDECODABLE"]
    assert letters[0]["subject"] == {"type": "upload", "id": "broken.jpg"}
    types = [item["type"] for item in await story(client, "broken.jpg")]
    assert "classification_error" in types
    path = f"/api/organizations/default/dead-letters/{letters[0]['id']}"
    assert (await client.post(f"{path}/redrive")).status_code == 202
    assert (await client.post(f"{path}/redrive")).status_code in {409, 202}

    async def dead_again() -> Any:
        rows = (await client.get("/api/organizations/default/dead-letters")).json()["items"]
        return rows

    [again] = await until(dead_again)
    assert (await client.post(f"/api/organizations/default/dead-letters/{again['id']}/discard")).status_code == 200
    assert (await client.get("/api/organizations/default/dead-letters")).json()["items"] == []


EVENTS = "/api/events/objects"


async def send(app: Application, body: Any) -> httpx.Response:
    async with app.client("e" * 20) as sender:
        return await sender.post(EVENTS, json=body)


async def test_events_from_outside(app: Application, client: httpx.AsyncClient) -> None:
    await upload(client, "a.jpg")
    found = await classified(client, "a.jpg")
    removed = {
        "account": "x", "action": "DeleteObject", "bucket": "b",
        "object": {"key": "default/a.jpg"}, "eventTime": "2031-01-01T00:00:00.000Z",
    }  # fmt: skip
    answer = await send(app, [removed, {"nonsense": True}, {**removed, "action": "GetObject"}])
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "ignored": 1, "rejected": 1}

    async def told() -> Any:
        return [i for i in await story(client, "a.jpg") if i.get("reason") == "object_present"]

    [line] = await until(told)
    assert line["actor"]["type"] == "event"
    assert await entry(client, "a.jpg") == found

    async def dead() -> Any:
        return (await client.get("/api/v1/admin/dead-letters")).json()["items"]

    [letter] = await until(dead)
    assert letter["kind"] == "objects.rejected"

    async with app.client(None) as nobody:
        assert (await nobody.post(EVENTS, json=[])).status_code == 401
        assert (await nobody.post(f"{EVENTS}?token={'e' * 20}", json=[])).status_code == 202
        basic = httpx.BasicAuth("sns", "e" * 20)
        assert (await nobody.post(EVENTS, json=[], auth=basic)).status_code == 202
        broken = await nobody.post(f"{EVENTS}?token={'e' * 20}", content=b"{")
        assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")
