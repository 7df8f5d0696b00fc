"""The library over the wire: what is stored is listed, served and deleted for good."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from harness import picture
from inprocess import application
from library.api import EVENTS, EVENTS_TOKEN, LIBRARY, Api, deleted
from safelight.library.entry import ENTRY_STATUSES, RunStatus
from safelight.testing.waiting import until

PHOTOS = Path(__file__).parents[1] / "photos"


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with (
        application(database_url, tmp_path, worker=True, events_token=EVENTS_TOKEN) as app,
        app.client() as client,
    ):
        yield Api(app, client)


@pytest.mark.parametrize(
    ("photo", "labels"),
    [
        ("cat.jpg", {"TABBY", "TIGER CAT", "EGYPTIAN CAT"}),
        ("coffee.jpg", {"ESPRESSO", "CUP", "COFFEE MUG"}),
        ("daisy.jpg", {"DAISY"}),
    ],
)
async def test_photographs_get_sensible_labels(api: Api, photo: str, labels: set[str]) -> None:
    image = await api.upload(photo, (PHOTOS / photo).read_bytes())
    found = await api.settled(photo)
    assert found["classificationLabel"] in labels
    assert 0 < found["classificationScore"] <= 1
    assert found["classificationModel"].startswith("efficientnet-lite0@")
    assert found["imageId"] == image["imageId"]
    assert await api.types(photo) == [
        "upload_ingested",
        "upload_stored",
        "event_received",
        "classification_workflow_started",
        "run_attempt",
        "classification_updated",
    ]


async def test_content_ranges_and_etags(api: Api) -> None:
    client, content = api.client, picture("PNG", (300, 200))
    await api.stored(await api.upload("a b ü.png", content))
    path = f"{LIBRARY}/a b ü.png/content"
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


async def test_listing_searching_and_paging(api: Api) -> None:
    names = [f"holiday_{n:02}.jpg" for n in range(7)] + ["Crème brûlée.jpg"]
    for name in names:
        await api.upload(name)
    for name in names:
        await api.settled(name)
    seen, cursor = [], None
    while True:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get(LIBRARY, params=params)).json()
        seen += [item["name"] for item in page["items"]]
        if len(seen) == 3:
            await api.upload("newer.jpg")  # does not disturb a page that is under way
            await api.settled("newer.jpg")
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(names)

    async def found(**params: str) -> set[str]:
        answer = (await api.client.get(LIBRARY, params=params)).json()
        return {item["name"] for item in answer["items"]}

    assert await found(q="holi 03") == {"holiday_03.jpg"}
    assert await found(q="creme brul") == {"Crème brûlée.jpg"}
    assert await found(q="holiday nothing") == set()
    assert len(await found(status="done")) == 9
    assert await found(status="failed") == set()
    label = (await api.settled(names[0]))["classificationLabel"]
    assert names[0] in await found(label=label)
    for bad in ({"limit": 0}, {"cursor": "x"}, {"status": "maybe"}, {"q": "..."}):
        assert (await api.client.get(LIBRARY, params=bad)).status_code == 422
    for status in ENTRY_STATUSES:
        assert (await api.client.get(LIBRARY, params={"status": status})).status_code == 200
    refused = await api.client.get(LIBRARY, params={"status": RunStatus.DROPPED})
    assert refused.status_code == 422
    words = "status: Input should be 'pending', 'running', 'done' or 'failed'."
    assert refused.json()["error"] == words


async def test_deleting(api: Api) -> None:
    await api.upload("a.jpg")
    await api.settled("a.jpg")
    gone = await api.client.delete(f"{LIBRARY}/a.jpg")
    assert (gone.status_code, gone.json()) == (202, {})
    assert (await api.client.get(f"{LIBRARY}/a.jpg/content")).status_code == 404
    await api.gone("a.jpg")
    assert await api.delete("a.jpg") == 202
    assert (await api.types("a.jpg"))[-1] != "classification_updated"
    assert await api.delete("never.jpg") == 404
    assert (await api.client.get(f"{LIBRARY}/never.jpg/history")).status_code == 404
    again = picture("PNG")
    await api.upload("a.jpg", again)
    await api.settled("a.jpg")
    assert await api.content("a.jpg") == again


async def test_a_damaged_file_is_its_owners_news(api: Api) -> None:
    broken = picture("JPEG", (200, 200))[:700]
    await api.upload("broken.jpg", broken)
    await api.upload("fine.jpg")
    await api.settled("fine.jpg")
    found = await api.settled("broken.jpg", "failed")
    assert found["failure"]["code"] == "UNDECODABLE"
    assert found["failure"]["message"]
    [message] = await api.messages("classification_error")
    assert (message["name"], message["final"]) == ("broken.jpg", True)
    assert message["error"] == found["failure"]
    await api.idle()
    assert await api.letters() == []
    listed = (await api.client.get(LIBRARY, params={"status": "failed"})).json()["items"]
    assert [(item["name"], item["failure"]) for item in listed] == [
        ("broken.jpg", found["failure"])
    ]
    # Uploading it again, whole, is the cure.
    await api.upload("broken.jpg", picture())
    assert "failure" not in await api.settled("broken.jpg")


async def test_events_from_outside(api: Api) -> None:
    await api.upload("a.jpg")
    found = await api.settled("a.jpg")
    removed = deleted("a.jpg", "2031-01-01T00:00:00.000Z")
    async with api.app.client(EVENTS_TOKEN) as sender:
        body = [removed, {"nonsense": True}, {**removed, "action": "GetObject"}]
        answer = await sender.post(EVENTS, json=body)
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "ignored": 1, "rejected": 1}
    [line] = await api.told("a.jpg", "event_dropped")
    assert (line["reason"], line["actor"]["type"]) == ("object_present", "event")
    assert line["beatenBy"]["idempotencyKey"] == found["idempotencyKey"]
    assert await api.entry("a.jpg") == found

    async def dead() -> list[dict[str, str]]:
        items: list[dict[str, str]] = (await api.client.get("/api/v1/admin/dead-letters")).json()[
            "items"
        ]
        return items

    [letter] = await until(dead)
    assert letter["kind"] == "objects.rejected"


async def test_who_may_send_events(api: Api) -> None:
    async with api.app.client(None) as nobody:
        assert (await nobody.post(EVENTS, json=[])).status_code == 401
        assert (await nobody.post(f"{EVENTS}?token={EVENTS_TOKEN}", json=[])).status_code == 202
        basic = httpx.BasicAuth("sns", EVENTS_TOKEN)
        assert (await nobody.post(EVENTS, json=[], auth=basic)).status_code == 202
        broken = await nobody.post(f"{EVENTS}?token={EVENTS_TOKEN}", content=b"{")
        assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")
