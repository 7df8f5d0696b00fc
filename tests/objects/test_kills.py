"""The process dies at every step, while others put the same bytes: nothing is lost or half there."""

import asyncio

import pytest

from objects.life import CONTENT, GRACE_MS, KEY, start
from objects.stores import Local, digest, events, stream
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.objects.store import Facts, NoSuchObject
from safelight.objects.upkeep import Collect

pytestmark = pytest.mark.process
JPEG = Facts("image/jpeg")
SHA256 = digest(CONTENT)


PUT = [
    "write", "fsync_draft", "link", "fsync_directory", "fsync_parent", "record_put", "put",
    "discard_draft",
]  # fmt: skip
COLLECT = ["condemn", "walk_strays", "next_epoch", "unlink", "forget"]


async def die(local: Local, url: str, what: str, point: str) -> None:
    """Another process dies at the point, while this one keeps putting the same bytes."""
    process = start(url, local.root.parent, what, f"objects.{point}=exit")
    while process.poll() is None:
        await local.store.put("acme/other", stream(CONTENT), JPEG)
        await local.check()
        await local.store.delete("acme/other")
        await local.check()
        await asyncio.sleep(0.05)
    assert process.returncode == EXIT_CODE
    await local.check()


async def content(local: Local) -> bytes | None:
    try:
        return await (await local.store.get(KEY)).read()
    except NoSuchObject:
        return None


async def told(db: Database) -> list[str]:
    return [action for action, key, _ in await events(db) if key == KEY]


@pytest.mark.parametrize("point", PUT)
async def test_a_put(local: Local, database: Database, database_url: str, point: str) -> None:
    await die(local, database_url, "put", point)
    done = point == "discard_draft"
    assert await content(local) == (CONTENT if done else None)
    assert await told(database) == ["created"] * done
    await local.store.put(KEY, stream(CONTENT), JPEG)
    assert await content(local) == CONTENT
    assert await told(database) == ["created"] * (1 + done)


@pytest.mark.parametrize("point", ["rename", "drop_draft"])
async def test_a_put_over_a_damaged_file(
    local: Local, database: Database, database_url: str, point: str
) -> None:
    await local.store.put("acme/old", stream(CONTENT), JPEG)
    local.blobs.path(SHA256).write_bytes(b"rotten")
    process = start(database_url, local.root.parent, "put", f"objects.{point}=exit")
    assert await asyncio.to_thread(process.wait, 30) == EXIT_CODE
    assert await told(database) == []
    await local.store.put(KEY, stream(CONTENT), JPEG)
    await local.check()
    assert await content(local) == CONTENT


@pytest.mark.parametrize("point", ["record_delete", "delete"])
async def test_a_delete(local: Local, database: Database, database_url: str, point: str) -> None:
    await local.store.put(KEY, stream(CONTENT), JPEG)
    await die(local, database_url, "delete", point)
    assert await content(local) == CONTENT
    assert await told(database) == ["created"]
    await local.store.delete(KEY)
    assert await content(local) is None
    assert await told(database) == ["created", "deleted"]


@pytest.mark.parametrize("point", COLLECT)
async def test_a_collection(
    local: Local, database: Database, database_url: str, point: str
) -> None:
    for n in range(3):
        await local.store.put(f"acme/{n}", stream(b"%d" % n), JPEG)
        await local.store.delete(f"acme/{n}")
    await local.store.put(KEY, stream(b"kept"), JPEG)
    await die(local, database_url, "collect", point)
    assert await content(local) == b"kept"
    await Collect(local.units, local.blobs, grace_ms=GRACE_MS).run()
    assert set(local.files()) == {digest(b"kept")}
    assert await database.fetchval("SELECT count(*) FROM blobs") == 1
