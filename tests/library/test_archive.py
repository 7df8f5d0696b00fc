"""A zip of many originals: sound, whatever they are called and whatever goes away meanwhile, and
never more of it in memory than a piece."""

import asyncio
import io
import socket
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from harness import TOKEN
from inprocess import application
from library.api import LIBRARY, Api
from safelight.library.archives.archive import zipped
from safelight.library.archives.names import ArchiveNames, safe_name
from safelight.objects.keys import NAME_BYTES
from safelight.objects.store import (
    Content,
    DamagedObject,
    Facts,
    NoSuchObject,
    ObjectInfo,
    ObjectStore,
    StoreUnavailable,
)
from safelight.testing.waiting import until

AT = int(datetime(2026, 5, 4, 3, 2, 2, tzinfo=UTC).timestamp() * 1000)
PIECE = 64 * 1024


class Shelf:
    """A store whose objects have as many pieces as is said; counts what is open."""

    def __init__(self, **pieces: int | Exception) -> None:
        self.pieces = pieces
        self.open = self.given = 0

    async def get(self, key: str, *_: Any) -> Content:
        pieces = self.pieces.get(key.partition("/")[2].partition(".")[0])
        if pieces is None:
            raise NoSuchObject
        size = PIECE * (pieces if isinstance(pieces, int) else 2)
        info = ObjectInfo(key, size, "image/jpeg", {}, "e", AT)
        return Content(info, 0, size, self._chunks(pieces))

    async def _chunks(self, pieces: int | Exception) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            for number in range(pieces if isinstance(pieces, int) else 1):
                self.given += 1
                await asyncio.sleep(0)  # as whatever reads files or asks buckets
                yield bytes([number % 256]) * PIECE
            if isinstance(pieces, Exception):
                raise pieces
        finally:
            self.open -= 1


def begun(shelf: Shelf, *names: str, **absent: None) -> AsyncGenerator[bytes]:
    times: dict[str, int | None] = {**dict.fromkeys(names, AT), **absent}
    return zipped(cast("ObjectStore", shelf), "org", times)


async def opened(chunks: AsyncGenerator[bytes]) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(b"".join([chunk async for chunk in chunks])))
    assert archive.testzip() is None
    return archive


async def test_what_goes_in_comes_out() -> None:
    shelf = Shelf(a=3, b=0, c=1)
    archive = await opened(begun(shelf, "a.jpg", "b.jpg", "c.jpg"))
    assert archive.namelist() == ["a.jpg", "b.jpg", "c.jpg"]
    assert [info.file_size for info in archive.infolist()] == [3 * PIECE, 0, PIECE]
    assert archive.read("a.jpg") == b"".join(bytes([n]) * PIECE for n in range(3))
    first = archive.infolist()[0]
    assert (first.date_time, first.compress_type) == ((2026, 5, 4, 3, 2, 2), zipfile.ZIP_STORED)
    assert shelf.open == 0


async def test_what_is_not_there_is_listed() -> None:
    shelf = Shelf(a=1, broken=DamagedObject(), b=1)
    archive = await opened(begun(shelf, "a.jpg", "gone.jpg", "broken.jpg", "b.jpg", never=None))
    assert archive.namelist() == ["a.jpg", "broken.jpg", "b.jpg", "missing.txt"]
    assert archive.read("missing.txt").decode().split("\n\n")[1].splitlines() == [
        "gone.jpg",
        "    It was deleted meanwhile.",
        "broken.jpg",
        f"    {DamagedObject().message}",
        "never",
        "    It was not in the library.",
    ]
    assert shelf.open == 0


async def test_a_store_that_goes_away_ends_it_in_the_middle() -> None:
    """Better no archive than one that looks whole."""
    shelf = Shelf(a=1, b=StoreUnavailable())
    with pytest.raises(StoreUnavailable):
        await opened(begun(shelf, "a.jpg", "b.jpg"))
    assert shelf.open == 0


async def test_nothing_is_read_before_it_is_wanted_and_nothing_stays_open() -> None:
    shelf = Shelf(a=1000)
    chunks = begun(shelf, "a.jpg")
    for wanted in range(1, 10):
        assert len(await anext(chunks)) < 2 * PIECE
        assert (shelf.given, shelf.open) == (wanted, 1)
    await chunks.aclose()
    assert shelf.open == 0


async def test_more_than_thirty_two_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if four gigabytes were four pieces."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 4 * PIECE)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    archive = await opened(begun(Shelf(a=9, b=1, c=1), "a.jpg", "b.jpg", "c.jpg"))
    assert [info.file_size // PIECE for info in archive.infolist()] == [9, 1, 1]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("ä 雪 🐱.jpg", "ä 雪 🐱.jpg"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("C:\\x?*.png", "C__x__.png"),
        ("CON.jpg", "_CON.jpg"),
        ("trailing. ", "trailing"),
        ("...", "_"),
        ("left\u202etfel.jpg", "left_tfel.jpg"),
        (" ", "_"),
    ],
)
def test_names_that_every_system_takes(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_each_name_once() -> None:
    names = ArchiveNames("missing.txt")
    asked = ["a.jpg", "A.JPG", "a (2).jpg", "a.jpg", "MISSING.txt", "e\u0301", "é", "x/y", "x:y"]
    given = [names.take(name) for name in asked]
    assert given[:4] == ["a.jpg", "A (2).JPG", "a (2) (2).jpg", "a (3).jpg"]
    assert given[4] == "MISSING (2).txt"
    assert given[5:] == ["e\u0301", "é (2)", "x_y", "x_y (2)"]
    long = [names.take("n" * 250 + tail) for tail in (".jpg", ".jpg", "/.jpg", "?.jpg")]
    assert len({name.casefold() for name in long}) == 4
    assert max(len(name.encode()) for name in long) <= NAME_BYTES


# Over the wire


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path) as app, app.client() as client:
        yield Api(app, client)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def shelve(api: Api, names: list[str], size: int) -> None:
    """Objects and their entries, without the work around them."""
    store = api.app.registry.get(ObjectStore)
    for number, name in enumerate(names):
        content = pieces(number.to_bytes(4, "big") * (size // 4))
        await store.put(f"default/{name}", content, Facts("image/jpeg", {"name": name}))
    await api.app.db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key) "
        "SELECT 'default', name, $2, 'safelight', name FROM unnest($1::text[]) AS name",
        names,
        AT,
    )


async def test_three_hundred_of_which_one_goes_away(api: Api) -> None:
    names = [f"picture {n}.jpg" for n in range(300)]
    await shelve(api, names, 4_000_000 // 100)
    body, gone = b"", names[250]
    async with api.client.stream("POST", f"{LIBRARY}/download", json={"names": names}) as answer:
        assert answer.headers["content-type"] == "application/zip"
        assert "content-length" not in answer.headers
        assert answer.headers["content-disposition"].startswith(
            "attachment; filename*=UTF-8''default"
        )
        async for piece in answer.aiter_raw():
            if not body:
                await api.app.registry.get(ObjectStore).delete(f"default/{gone}")
            body += piece
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert archive.testzip() is None
    there = set(archive.namelist())
    assert set(names) - there == {gone} or set(names) <= there, "all but what went in time"
    assert ("missing.txt" in there) == (gone not in there)
    assert archive.read(names[7]) == (7).to_bytes(4, "big") * 10_000


async def test_whoever_goes_away_leaves_nothing_open(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not read was not read for it."""
    shelf, store = Shelf(**{f"p{n}": 64 for n in range(50)}), api.app.registry.get(ObjectStore)
    names = [f"p{n}.jpg" for n in range(50)]
    await shelve(api, names, 8)
    monkeypatch.setattr(type(store), "get", lambda _, key, *__: shelf.get(key))
    address = api.app.url.removeprefix("http://").split(":")
    body = ('{"names": [' + ",".join(f'"{name}"' for name in names) + "]}").encode()
    head = (
        f"POST {LIBRARY}/download HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address[0], int(address[1]))) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        client.sendall(head.encode() + body)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 200")
        await until(lambda: shelf.open == 1)
    await until(lambda: shelf.open == 0)
    assert shelf.given < 800, "of 3,200 pieces, with what the buffers of a socket hold"


async def test_refusals(api: Api) -> None:
    await shelve(api, ["a.jpg"], 8)
    for names, status in (([], 422), (["x"] * 2001, 422), (["b.jpg", "\0"], 404)):
        answer = await api.client.post(f"{LIBRARY}/download", json={"names": names})
        assert answer.status_code == status, answer.text


async def test_by_a_form(api: Api) -> None:
    await shelve(api, ["a.jpg", "b.jpg"], 8)
    form = {"name": ["a.jpg", "b.jpg", *(f"{n}.jpg" for n in range(1500))], "more": "x"}
    answer = await api.client.post("/app/default/upload/download", data=form)
    assert answer.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.namelist() == ["a.jpg", "b.jpg", "missing.txt"]
    for wrong in ({"name": [f"{n}" for n in range(2001)]}, {}):
        answer = await api.client.post("/app/default/upload/download", data=wrong)
        assert answer.status_code == 422, answer.text
