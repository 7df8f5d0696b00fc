"""The process dies at every step, while others put the same bytes: nothing is lost or half there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from objects.life import CONTENT, KEY, start
from objects.stores import Local, digest, events, stream
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.objects.store import Facts, NoSuchObject

pytestmark = pytest.mark.process
JPEG = Facts("image/jpeg")
SHA256 = digest(CONTENT)


async def meanwhile(
    work: Callable[[], Awaitable[None]], url: str, root: Path, what: str, point: str
) -> None:
    """Does the work again and again until the other process has died at the point."""
    process = start(url, root, what, f"{point}=exit")
    while process.poll() is None:
        await work()
        await asyncio.sleep(0.01)
    assert process.returncode == EXIT_CODE


async def run(url: str, root: Path, what: str) -> None:
    process = start(url, root, what, "")
    assert await asyncio.to_thread(process.wait, 30) == 0


async def content(local: Local, key: str = KEY) -> bytes | None:
    try:
        return await (await local.store.get(key)).read()
    except NoSuchObject:
        return None


def others(local: Local) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        await local.store.put("acme/other", stream(CONTENT), JPEG)
        await local.check()
        await local.store.delete("acme/other")
        await local.check()

    return work


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    "point",
    [
        "write",
        "fsync_draft",
        "link",
        "fsync_directory",
        "fsync_parent",
        "record_put",
        "put",
        "discard_draft",
    ],
)
async def test_a_put(
    local: Local, database: Database, database_url: str, point: str, busy: bool
) -> None:
    if busy and point in {"write", "fsync_draft", "discard_draft"}:
        return
    work = others(local) if busy else local.check
    await meanwhile(work, database_url, local.root.parent, "put", f"objects.{point}")
    await local.check()
    done = point == "discard_draft"
    assert await content(local) == (CONTENT if done else None)
    told = [key for _, key, _ in await events(database) if key == KEY]
    assert told == ([KEY] if done else [])
    await local.store.put(KEY, stream(CONTENT), JPEG)
    assert await content(local) == CONTENT
