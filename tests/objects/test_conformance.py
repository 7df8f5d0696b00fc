"""What every store promises, asked of each of them."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from objects.stores import deliveries, digest, events, stream
from safelight.errors import RangeNotSatisfiable
from safelight.infra.db import Database
from safelight.infra.files import ChecksumMismatch, joined
from safelight.objects.keys import InvalidKey
from safelight.objects.store import Facts, NoSuchObject, ObjectStore

KEY = "acme/cat.jpg"
JPEG = Facts("image/jpeg")


async def read(store: ObjectStore, key: str, start: int = 0, stop: int | None = None) -> bytes:
    return await joined((await store.get(key, start, stop)).chunks)


def tells(store: ObjectStore) -> bool:
    """A bucket that tells of its own events leaves none for us to see."""
    return getattr(store, "_place", "blob") != "telling-bucket"


async def test_what_is_put_comes_back(store: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "cat"
    path.write_bytes(b"meow")
    metadata = {"organizationId": "acme", "name": "cat.jpg", "idempotencyKey": "k-1", "width": "3"}
    await store.put(KEY, path, Facts("image/jpeg", metadata, digest(b"meow")))
    content = await store.get(KEY)
    assert (content.info.size, content.start, content.stop) == (4, 0, 4)
    assert await joined(content.chunks) == b"meow"
    info = await store.head(KEY)
    assert info == content.info
    assert (info.key, info.content_type, info.metadata) == (KEY, "image/jpeg", metadata)
    assert info.etag
    assert '"' not in info.etag
    assert path.read_bytes() == b"meow"


@pytest.mark.parametrize(
    "name",
    [
        "größer als ✨.jpg",
        "a%20b%2Fc.jpg",
        "a+b&c=d#e?f.jpg",
        " › \u202ex.png",
        "日本" * 40,
        "'\"~*()",
    ],
)
async def test_any_name(store: ObjectStore, name: str) -> None:
    key = f"acme/{name}"
    metadata = {"organizationId": "acme", "name": name, "idempotencyKey": "k"}
    await store.put(key, stream(b"x"), Facts("image/png", metadata))
    assert (await store.head(key)).metadata == metadata
    assert await read(store, key) == b"x"
    assert [listed.key for listed in await store.list("acme/")] == [key]
    await store.delete(key)
    with pytest.raises(NoSuchObject):
        await store.head(key)


async def test_streams_of_all_sorts(store: ObjectStore) -> None:
    await store.put("acme/a", stream(b"one ", b"", b"two"), JPEG)
    await store.put("acme/b", stream(), JPEG)
    await store.put("acme/c", stream(b""), JPEG)
    assert await read(store, "acme/a") == b"one two"
    assert await read(store, "acme/b") == await read(store, "acme/c") == b""
    assert (await store.head("acme/b")).size == 0


async def test_ranges(store: ObjectStore) -> None:
    await store.put(KEY, stream(b"0123456789"), JPEG)
    assert await read(store, KEY, 0, 1) == b"0"
    assert await read(store, KEY, 3) == b"3456789"
    assert await read(store, KEY, 8, 99) == b"89"
    content = await store.get(KEY, 2, 5)
    assert (content.start, content.stop, content.info.size) == (2, 5, 10)
    for start, stop in [(10, None), (11, 12), (5, 5), (5, 2), (-1, 3)]:
        with pytest.raises(RangeNotSatisfiable):
            await store.get(KEY, start, stop)


async def test_the_later_put_wins(store: ObjectStore) -> None:
    await store.put(KEY, stream(b"old"), Facts("image/png", {"idempotencyKey": "1"}))
    first = await store.head(KEY)
    await store.put(KEY, stream(b"newer"), Facts("image/gif", {"idempotencyKey": "2"}))
    second = await store.head(KEY)
    assert (second.size, second.content_type, second.metadata["idempotencyKey"]) == (
        5,
        "image/gif",
        "2",
    )
    assert second.etag != first.etag
    assert await read(store, KEY) == b"newer"


async def test_a_reader_keeps_what_it_began(store: ObjectStore) -> None:
    await store.put(KEY, stream(b"old"), JPEG)
    content = await store.get(KEY)
    await store.put(KEY, stream(b"new"), JPEG)
    assert await joined(content.chunks) == b"old"


async def test_nothing_there(store: ObjectStore) -> None:
    with pytest.raises(NoSuchObject):
        await store.head(KEY)
    with pytest.raises(NoSuchObject):
        await store.get(KEY)
    with pytest.raises(NoSuchObject):
        await store.get(KEY, 1, 2)
    await store.delete(KEY)
    await store.delete(KEY)
    assert list(await store.list("acme/")) == []
    await store.check()


async def test_wrong_bytes_are_refused(
    store: ObjectStore, database: Database, tmp_path: Path
) -> None:
    await store.put(KEY, stream(b"right"), JPEG)
    before = await events(database)
    path = tmp_path / "file"
    path.write_bytes(b"wrong")
    for source in (path, stream(b"wrong")):
        with pytest.raises(ChecksumMismatch):
            await store.put(KEY, source, Facts("image/jpeg", {}, digest(b"right")))
    assert await read(store, KEY) == b"right"
    assert await events(database) == before
    assert [*tmp_path.rglob("draft_*")] == []


async def test_a_stream_that_breaks_off(store: ObjectStore, tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"begin"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.put(KEY, broken(), JPEG)
    with pytest.raises(NoSuchObject):
        await store.head(KEY)
    assert [*tmp_path.rglob("draft_*")] == []


async def test_listing(store: ObjectStore) -> None:
    names = sorted(["acme/b", "acme/a", "acme/ä", "acme/Z", "acme/a b", "acmes/a", "zeta/a"])
    for key in names:
        await store.put(key, stream(key.encode()), JPEG)
    await store.put("thumbnails/acme/a", stream(b"t"), JPEG)
    mine = [key for key in names if key.startswith("acme/")]
    listed = await store.list("acme/")
    assert [entry.key for entry in listed] == mine
    assert [entry.size for entry in listed] == [len(key.encode()) for key in mine]
    assert {entry.etag for entry in listed} == {(await store.head(key)).etag for key in mine}
    assert [entry.key for entry in await store.list(after="acme/")][: len(mine)] == mine
    pages: list[str] = []
    while page := await store.list("acme/", after=pages[-1] if pages else "", limit=2):
        pages += [entry.key for entry in page]
    assert pages == mine
    assert len(await store.list()) == len(names) + 1


async def test_reserved_prefixes_have_no_deliveries(store: ObjectStore, database: Database) -> None:
    for key in ("artifacts/0001", "thumbnails/acme/cat.jpg", "renditions/x/y/z"):
        await store.put(key, stream(b"bytes"), JPEG)
        assert await read(store, key) == b"bytes"
        await store.delete(key)
    assert await deliveries(database) == []


@pytest.mark.parametrize(
    "key", ["", "acme", "acme/", "acme/a/b", "Acme/a", "artifacts/../a", "thumbnails//a"]
)
async def test_impossible_keys(store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidKey):
        await store.put(key, stream(b""), JPEG)
    with pytest.raises(InvalidKey):
        await store.delete(key)


async def test_every_change_has_its_event(store: ObjectStore, database: Database) -> None:
    if not tells(store):
        assert (await store.put(KEY, stream(b"1"), JPEG)).event_id is None
        assert await events(database) == []
        return
    first = await store.put(KEY, stream(b"1"), Facts("image/jpeg", {"idempotencyKey": "a"}))
    second = await store.put(KEY, stream(b"2"), Facts("image/jpeg", {"idempotencyKey": "b"}))
    third = await store.delete(KEY)
    again = await store.delete(KEY)
    rows = await database.fetch("SELECT * FROM object_events ORDER BY id")
    assert [row["action"] for row in rows] == ["created", "created", "deleted", "deleted"]
    assert [row["id"] for row in rows] == [w.event_id for w in (first, second, third, again)]
    times = [row["event_time"] for row in rows]
    assert times == sorted(set(times))
    assert [row["sequencer"] for row in rows] == sorted({row["sequencer"] for row in rows})
    assert [row["metadata"] for row in rows[:2]] == [
        {"idempotencyKey": "a"},
        {"idempotencyKey": "b"},
    ]
    assert {row["size"] for row in rows} == {1, None}
    assert {row["source"] for row in rows} == {"safelight"}
    assert [row["eventId"] for row in await deliveries(database)] == [row["id"] for row in rows]


async def test_event_times_rise_when_the_clock_does_not(
    store: ObjectStore, database: Database
) -> None:
    clock = store._clock  # type: ignore[attr-defined]  # every store has one
    clock.ms = 5_000
    await store.put(KEY, stream(b"1"), JPEG)
    clock.ms = 1_000
    await store.delete(KEY)
    await store.put(KEY, stream(b"2"), JPEG)
    clock.ms = 9_000
    await store.put(KEY, stream(b"3"), JPEG)
    expected = [5_000, 5_001, 5_002, 9_000] if tells(store) else []
    assert [time for _, _, time in await events(database)] == expected


async def test_many_put_one_key(store: ObjectStore, database: Database) -> None:
    contents = [f"version {n}".encode() for n in range(8)]
    await asyncio.gather(*(store.put(KEY, stream(content), JPEG) for content in contents))
    assert await read(store, KEY) in contents
    if tells(store):
        told = await database.fetch("SELECT etag FROM object_events ORDER BY sequencer")
        assert len(told) == 8
        assert told[-1]["etag"] == (await store.head(KEY)).etag


async def test_many_put_the_same_bytes(store: ObjectStore) -> None:
    keys = [f"acme/{n}" for n in range(8)]
    await asyncio.gather(*(store.put(key, stream(b"same"), JPEG) for key in keys))
    assert {await read(store, key) for key in keys} == {b"same"}
    await asyncio.gather(*(store.delete(key) for key in keys[1:]))
    assert await read(store, keys[0]) == b"same"


async def test_puts_deletes_and_reads_at_once(store: ObjectStore) -> None:
    async def work(n: int) -> None:
        await store.put(KEY, stream(b"%d" % n * 1000), JPEG)
        try:
            content = await read(store, KEY)
        except NoSuchObject:
            return
        finally:
            await store.delete(KEY)
        assert len(set(content)) == 1
        assert len(content) == 1000

    await asyncio.gather(*(work(n) for n in range(8)))
    with pytest.raises(NoSuchObject):
        await store.head(KEY)


async def test_large_objects_leave_memory_flat(store: ObjectStore) -> None:
    """The S3 server of the tests lives in this process and keeps what it is given."""
    megabytes = 96 if "Local" in type(store).__name__ else 24
    block = os.urandom(1024 * 1024)

    async def blocks(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield block

    await store.put("acme/warm", blocks(10), JPEG)
    async for _ in (await store.get("acme/warm")).chunks:
        pass
    process = psutil.Process()
    before = process.memory_info().rss
    await store.put("acme/large", blocks(megabytes), JPEG)
    content = await store.get("acme/large")
    total = 0
    async for chunk in content.chunks:
        total += len(chunk)
    assert total == megabytes * len(block)
    assert await read(store, "acme/large", len(block) - 2, len(block) + 2) == block[-2:] + block[:2]
    if "Local" in type(store).__name__:
        assert process.memory_info().rss - before < 32 * 1024 * 1024
