"""Thumbnails over the wire: small ones with the label, large ones when somebody asks."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from library.scripted import Scripted
from points import points_of
from safelight.infra import failpoints
from safelight.library.jobs import COLLECT_THUMBNAILS
from safelight.library.thumbnails.large import LargeThumbnails
from safelight.objects.store import ObjectStore
from safelight.sandbox.protocol import FaultKind
from safelight.sandbox.sandbox import ChildrenAway, Sandbox, TaskDied
from safelight.testing.waiting import until

PHOTO = picture("JPEG", (1600, 1200))
FOR_EVER = "private, max-age=31536000, immutable"


@pytest.fixture
async def api(model: Scripted, database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    """With a model that draws something at once, and children for what is large."""
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


@pytest.fixture
async def real(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


async def settled(api: Api, name: str = "a.jpg", content: bytes = PHOTO) -> dict[str, Any]:
    await api.upload(name, content)
    return await api.settled(name)


async def get(api: Api, name: str = "a.jpg", method: str = "GET", **how: Any) -> httpx.Response:
    return await api.client.request(method, f"{LIBRARY}/{name}/thumbnail", **how)


async def large(api: Api, name: str = "a.jpg") -> httpx.Response:
    return await get(api, name, params={"size": "1280"})


async def kept(api: Api) -> list[str]:
    rows = await api.app.registry.get(ObjectStore).list("thumbnails/")  # type: ignore[type-abstract]
    return [row.key for row in rows]


async def rows(api: Api) -> list[tuple[str, bool]]:
    found = await api.app.db.fetch("SELECT key, ends_at IS NULL FROM large_thumbnails")
    return [tuple(row) for row in found]


def opened(answer: httpx.Response) -> Image.Image:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
    return Image.open(io.BytesIO(answer.content))


async def test_a_small_one_comes_with_the_label(real: Api) -> None:
    api = real
    assert (await get(api)).status_code == 404
    image = await api.upload("a.jpg", PHOTO)
    entry = await api.settled("a.jpg")
    assert entry["checksum"] == image["checksum"]
    assert entry["dominantColor"].startswith("#")
    answer = await get(api)
    assert opened(answer).size == (320, 240)
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "sandbox" in answer.headers["content-security-policy"]
    listed = (await api.client.get(LIBRARY)).json()["items"][0]
    assert (listed["checksum"], listed["dominantColor"]) == (
        entry["checksum"],
        entry["dominantColor"],
    )


@pytest.mark.parametrize("size", ["320", "1280"])
async def test_etags_ranges_and_heads(api: Api, size: str) -> None:
    await settled(api)
    wanted = {"size": size}
    whole = await get(api, params=wanted)
    etag = whole.headers["etag"]
    unchanged = await get(api, params=wanted, headers={"if-none-match": etag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    part = await get(api, params=wanted, headers={"range": "bytes=2-9"})
    assert (part.status_code, part.content) == (206, whole.content[2:10])
    head = await get(api, method="HEAD", params=wanted)
    assert (head.status_code, head.headers["etag"]) == (200, etag)
    assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize("size", ["320", "1280"])
async def test_an_address_that_names_the_bytes_is_cached_for_ever(api: Api, size: str) -> None:
    checksum = (await settled(api))["checksum"]
    for version, caching in (
        (checksum, FOR_EVER),
        ("0" * 64, "private, no-cache"),
        ("", "private, no-cache"),
    ):
        answer = await get(api, params={"size": size, "v": version})
        assert answer.headers["cache-control"] == caching


async def test_a_new_upload_has_an_etag_of_its_own(api: Api) -> None:
    first = await settled(api)
    etags = {(await get(api)).headers["etag"], (await large(api)).headers["etag"]}
    await settled(api, content=picture("JPEG", (1600, 1201)))
    await api.settled("a.jpg")
    await until(lambda: _is_new(api, first["checksum"]))
    etags |= {(await get(api)).headers["etag"], (await large(api)).headers["etag"]}
    assert len(etags) == 4


async def _is_new(api: Api, before: str) -> bool:
    entry = await api.entry("a.jpg")
    done = entry is not None and entry["classificationStatus"] == "done"
    return bool(done and entry and entry["checksum"] != before)


@pytest.mark.parametrize("size", ["", "0", "321", "1280px", "-1"])
async def test_other_sizes_are_refused(api: Api, size: str) -> None:
    answer = await get(api, params={"size": size})
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")


async def test_one_that_cannot_be_read_has_none(real: Api) -> None:
    api = real
    await api.upload("a.jpg", PHOTO[:1000])
    await api.settled("a.jpg", "failed")
    assert (await get(api)).status_code == (await large(api)).status_code == 404
    assert await rows(api) == []


async def test_thumbnails_can_be_off(database_url: str, tmp_path: Path) -> None:
    async with (
        application(database_url, tmp_path, worker=True, thumbnails="off") as app,
        app.client() as client,
    ):
        api = Api(app, client)
        entry = await settled(api)
        assert entry["dominantColor"]
        assert (await get(api)).status_code == (await large(api)).status_code == 404
        assert await app.db.fetchval("SELECT count(*) FROM embeddings") == 1
        assert await app.db.fetchval("SELECT drawn FROM uploads") == 5


# Large ones


async def test_a_large_one_is_made_once_and_kept(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await settled(api)
    assert await kept(api) == []
    answers = await asyncio.gather(*(large(api) for _ in range(8)))
    assert {opened(answer).size for answer in answers} == {(1280, 960)}
    [key] = await kept(api)
    assert key.startswith("thumbnails/default/")
    assert await rows(api) == [(key, True)]
    monkeypatch.setattr(Sandbox, "thumbnail", lambda *_: pytest.fail("it is made again"))
    assert (await large(api)).content == answers[0].content
    assert b"EXIF" not in answers[0].content


async def test_a_large_one_is_upright_never_enlarged_and_stays_see_through(api: Api) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    out = io.BytesIO()
    Image.new("RGB", (200, 100), "red").save(out, "JPEG", exif=exif)
    await settled(api, "turned.jpg", out.getvalue())
    assert opened(await large(api, "turned.jpg")).size == (100, 200)
    out = io.BytesIO()
    Image.new("RGBA", (1500, 900), (255, 0, 0, 0)).save(out, "PNG")
    await settled(api, "clear.png", out.getvalue())
    clear = opened(await large(api, "clear.png"))
    assert (clear.mode, clear.size) == ("RGBA", (1280, 768))


async def test_it_goes_with_its_image(api: Api) -> None:
    """When that is replaced, and when it is deleted; at once for those who ask."""
    await settled(api)
    first = (await large(api)).content
    [key] = await kept(api)
    await settled(api, content=picture("JPEG", (1700, 1200)))
    await until(lambda: _no_longer(api, key))
    await api.settled("a.jpg")
    assert (await large(api)).content != first
    await api.delete("a.jpg")
    assert (await get(api)).status_code == (await large(api)).status_code == 404
    await api.gone("a.jpg")
    await api.idle()
    assert (await kept(api), await rows(api)) == ([], [])
    assert await api.app.db.fetchval("SELECT count(*) FROM thumbnails") == 0


async def _no_longer(api: Api, key: str) -> bool:
    return key not in await kept(api)


async def test_one_that_the_store_has_lost_is_made_again(api: Api) -> None:
    await settled(api)
    before = (await large(api)).content
    [key] = await kept(api)
    await api.app.registry.get(ObjectStore).delete(key)  # type: ignore[type-abstract]
    assert (await large(api)).content == before
    [again] = await kept(api)
    assert again != key
    await api.app.registry.get(LargeThumbnails).collect()
    assert await rows(api) == [(again, True)]


@pytest.mark.parametrize("end", ["overwrite", "delete"])
async def test_the_image_goes_while_it_is_made(api: Api, end: str) -> None:
    await settled(api)
    held = failpoints.arm("library.thumbnails.keep", "hold@1")
    asked = asyncio.create_task(large(api))
    await held.passed()
    if end == "delete":
        await api.delete("a.jpg")
        await api.gone("a.jpg")
    else:
        await api.upload("a.jpg", picture("JPEG", (1700, 1200)))
        await until(lambda: _marked_anew(api))
    failpoints.disarm()
    answer = await asked
    assert answer.status_code in {200, 404}
    if end == "overwrite":
        await api.settled("a.jpg")
        assert opened(await large(api)).size == (1280, 904)
    await api.idle()
    known = [key for key, _ in await rows(api)]
    assert await kept(api) == known
    assert len(known) == (1 if end == "overwrite" else 0)


async def _marked_anew(api: Api) -> bool:
    return bool(await api.app.db.fetchval("SELECT width = 1700 FROM uploads"))


async def test_of_two_that_are_made_one_is_kept(api: Api) -> None:
    """As by two processes."""
    await settled(api)
    larges = api.app.registry.get(LargeThumbnails)
    wanted = ("default", "a.jpg", (await api.entry("a.jpg") or {})["idempotencyKey"])
    await asyncio.gather(*(larges._make(wanted) for _ in range(3)))
    [key] = await kept(api)
    assert await rows(api) == [(key, True)]


async def test_who_stops_waiting_takes_it_from_nobody(api: Api) -> None:
    await settled(api)
    held = failpoints.arm("library.put_thumbnail", "hold@1")
    larges = api.app.registry.get(LargeThumbnails)
    first, second = (asyncio.create_task(larges.find("default", "a.jpg")) for _ in range(2))
    await held.passed()
    first.cancel()
    failpoints.disarm()
    found, _ = await second
    assert [found.key] == await kept(api)


async def test_what_cannot_be_drawn_is_tried_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settled(api)
    asked = []

    async def die(*_: Any) -> bytes | None:
        asked.append(1)
        raise TaskDied(FaultKind.MEMORY)

    monkeypatch.setattr(Sandbox, "thumbnail", die)
    assert [(await large(api)).status_code for _ in range(3)] == [404] * 3
    assert len(asked) == 1


async def test_children_that_are_away_are_asked_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settled(api)
    with monkeypatch.context() as trouble:

        async def away(*_: Any) -> bytes | None:
            raise ChildrenAway

        trouble.setattr(Sandbox, "thumbnail", away)
        assert (await large(api)).status_code == 503
    assert (await large(api)).status_code == 200


async def test_an_organization_can_ask_for_so_many_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settled(api)
    await settled(api, "b.jpg")
    monkeypatch.setattr("safelight.library.thumbnails.large._MOST_WAITING", 1)
    held = failpoints.arm("library.put_thumbnail", "hold@1")
    first = asyncio.create_task(large(api))
    await held.passed()
    refused = await large(api, "b.jpg")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    failpoints.disarm()
    assert (await first).status_code == 200
    assert (await large(api, "b.jpg")).status_code == 200


MAKING = [
    "library.put_thumbnail",
    "library.thumbnails.begin",
    "library.thumbnails.keep",
]


@pytest.mark.parametrize("point", MAKING)
async def test_killed_while_it_is_made(api: Api, point: str) -> None:
    """The next who asks gets one, and of what was half made nothing stays."""
    await settled(api)
    armed = failpoints.arm(point, "raise@1")
    assert (await large(api)).status_code == 500
    assert armed.passes
    failpoints.disarm()
    assert (await large(api)).status_code == 200
    await api.app.db.execute("UPDATE large_thumbnails SET ends_at = 0 WHERE ends_at IS NOT NULL")
    await api.app.registry.get(LargeThumbnails).collect()
    [(key, used)] = await rows(api)
    assert (await kept(api), used) == ([key], True)


async def test_nothing_that_may_still_be_made_is_collected(api: Api) -> None:
    await settled(api)
    held = failpoints.arm("library.thumbnails.keep", "hold@1")
    asked = asyncio.create_task(large(api))
    await held.passed()
    assert await api.app.registry.get(LargeThumbnails).collect() == 0
    failpoints.disarm()
    assert (await asked).status_code == 200


COLLECTING = [
    *points_of(
        "library.thumbnails.", without=["library.thumbnails.begin", "library.thumbnails.keep"]
    ),
    "library.delete_thumbnail",
]


@pytest.mark.parametrize("point", COLLECTING)
async def test_killed_while_it_is_collected(api: Api, point: str) -> None:
    await settled(api)
    await large(api)
    if point == "library.thumbnails.give_up":
        await api.app.registry.get(ObjectStore).delete((await kept(api))[0])  # type: ignore[type-abstract]
    armed = failpoints.arm(point, "raise@1")
    if point == "library.thumbnails.give_up":
        assert (await large(api)).status_code == 500
        assert (await large(api)).status_code == 200
    await api.delete("a.jpg")
    await api.gone("a.jpg")
    await armed.passed()
    await until(lambda: _hurried(api))
    assert (await kept(api), await rows(api)) == ([], [])


async def _hurried(api: Api) -> bool:
    await api.hurry()
    left = "SELECT count(*) FROM jobs WHERE kind = $1"
    return not await api.app.db.fetchval(left, COLLECT_THUMBNAILS.name)
