"""Many at once over the wire: how many there are, which bytes are here, and deleting by names."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness import picture
from inprocess import application
from library.api import LIBRARY, ORGANIZATION, Api
from library.scripted import Scripted
from safelight.infra import failpoints
from safelight.testing.waiting import until

NOBODY = "0" * 64


@pytest.fixture
async def api(database_url: str, tmp_path: Path, model: Scripted) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def ask(api: Api, what: str, **body: Any) -> Any:
    answer = await api.client.post(f"{LIBRARY}/{what}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


async def facets(api: Api, **query: str) -> Any:
    answer = await api.client.get(f"{ORGANIZATION}/facets", params=query)
    return answer.json() if answer.is_success else answer.status_code


async def test_how_many_there_are(api: Api) -> None:
    assert await facets(api) == {
        "total": 0,
        "labels": [],
        "statuses": [{"status": s, "count": 0} for s in ("pending", "running", "done", "failed")],
        "capped": False,
    }
    for number in range(3):
        await api.upload(f"{number}.png", picture("PNG", (8 + number, 8)))
        await api.settled(f"{number}.png")
    found = await facets(api, q="png", status="done")
    assert found["total"] == sum(one["count"] for one in found["labels"]) == 3
    assert await facets(api, label="NOTHING") == {**found, "total": 0, "statuses": [
        {"status": s, "count": 0} for s in ("pending", "running", "done", "failed")
    ]}  # fmt: skip
    assert (await facets(api, q="..."), await facets(api, status="odd")) == (422, 422)


async def test_which_bytes_are_here(api: Api) -> None:
    """In the library, or stored and not yet heard of; not any more."""
    content = picture("PNG")
    new = await api.upload("a.png", content)
    await api.settled("a.png")
    asked = [NOBODY, sha256(content).upper(), sha256(content)]
    here = {"checksum": sha256(content), "name": "a.png", "imageId": new["imageId"]}
    assert (await ask(api, "known", checksums=asked))["known"] == [here]
    await api.app.db.execute("DELETE FROM uploads")  # as before its event was heard
    assert (await ask(api, "known", checksums=asked))["known"] == [here]
    await api.delete("a.png")
    assert (await ask(api, "known", checksums=asked))["known"] == []
    for wrong in (["x"], [NOBODY] * 501):
        answer = await api.client.post(f"{LIBRARY}/known", json={"checksums": wrong})
        assert answer.status_code == 422


async def test_bytes_on_their_way(database_url: str, tmp_path: Path) -> None:
    """No worker: what is received waits to be stored. What was deleted meanwhile does not come."""
    async with application(database_url, tmp_path, worker=False) as app, app.client() as client:
        api = Api(app, client)
        contents = [picture("PNG", (8 + n, 8)) for n in range(2)]
        images = [await api.upload(f"{n}.png", each) for n, each in enumerate(contents)]
        asked = [sha256(each) for each in contents]
        found = (await ask(api, "known", checksums=asked))["known"]
        assert [one["imageId"] for one in found] == [one["imageId"] for one in images]
        assert await api.delete("0.png") == 202
        found = (await ask(api, "known", checksums=asked))["known"]
        assert [one["name"] for one in found] == ["1.png"]


async def test_deleting_many(api: Api) -> None:
    names = [f"{n}.png" for n in range(12)]
    for number, name in enumerate(names):
        await api.upload(name, picture("PNG", (8 + number, 8)))
    await asyncio.gather(*(api.settled(name) for name in names))
    asked = ["never.png", *names[:10], names[0], "\0", "a/../b", ""]
    told = await ask(api, "delete", names=asked)
    assert told == {"deleted": 10, "unknown": ["never.png", "\0", "a/../b", ""]}
    await asyncio.gather(*(api.gone(name) for name in names[:10]))
    assert [bool(await api.entry(name)) for name in names[10:]] == [True, True]
    assert (await ask(api, "delete", names=names[:10]))["deleted"] == 10, "as often as one likes"
    kind = "upload_delete_requested"
    assert len(await api.told(names[0], kind)) == 2
    assert (await ask(api, "delete", names=[])) == {"deleted": 0, "unknown": []}
    assert (
        await api.client.post(f"{LIBRARY}/delete", json={"names": names * 20})
    ).status_code == 422


@pytest.mark.parametrize("point", ["objects.record_delete", "library.delete"])
async def test_a_death_at_one_of_them(api: Api, point: str) -> None:
    """The others are deleted all the same, and whoever asked again has them all deleted."""
    names = [f"{n}.png" for n in range(6)]
    for number, name in enumerate(names):
        await api.upload(name, picture("PNG", (8 + number, 8)))
    await asyncio.gather(*(api.settled(name) for name in names))
    armed = failpoints.arm(point, "raise@3")
    answer = await api.client.post(f"{LIBRARY}/delete", json={"names": names})
    assert (answer.status_code, armed.passes) == (500, 6)

    async def left() -> bool:
        there = [bool(await api.entry(name)) for name in names]
        return sum(there) == 1

    await until(left)
    assert (await ask(api, "delete", names=names))["deleted"] == 6
    await asyncio.gather(*(api.gone(name) for name in names))


async def test_a_page_has_no_name(api: Api) -> None:
    """An upload may be called as these verbs are."""
    for name in ("known", "delete", "download", "facets"):
        await api.upload(name)
        found = await until(lambda name=name: api.entry(name))  # type: ignore[misc]
        assert found["name"] == name
        assert await api.delete(name) == 202
