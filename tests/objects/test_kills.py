"""The process dies at every step, while others put the same bytes: nothing is lost or half there."""

import asyncio

import pytest

from objects.life import CONTENT, GRACE_MS, KEY, start
from objects.stores import Local, digest, events, stream
from points import points_of
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.files import joined
from safelight.infra.metrics import Metrics
from safelight.objects.store import Facts, NoSuchObject
from safelight.objects.upkeep import Collect, Scrub

pytestmark = pytest.mark.process
JPEG = Facts("image/jpeg")
SHA256 = digest(CONTENT)


OVER_DAMAGE = ["objects.rename", "objects.drop_draft"]
DELETE = ["objects.record_delete", "objects.delete"]
COLLECT = [
    "objects.condemn", "objects.set_walk", "objects.next_epoch", "objects.unlink",
    "objects.delete_blobs",
]  # fmt: skip
SCRUB = ["objects.set_blob_state", "objects.set_walk"]
# Killed by other tests, since no process of a built-in store comes by them in the time there is.
ELSEWHERE = [
    # test_bucket_kills.py, ingest/test_late_bucket.py: only a bucket is written so.
    "objects.issue_ticket", "objects.redeem", "objects.bucket_put", "objects.record_bucket_put",
    "objects.bucket_delete", "objects.record_bucket_delete", "objects.leave_mark", "objects.erase",
    "objects.bucket_delete_aged", "objects.record_bucket_delete_aged", "objects.put_off",
    "objects.mended",
    # test_collect.py: a submission shares what is put.
    "objects.share",
    # infra/test_identity.py: files and directories that are made once.
    "files.once_write", "files.once_fsync", "files.once_link", "files.once_drop",
    "files.once_sync", "files.sync_made",
    # test_purge.py: so must a draft, and deleted objects and told events a month.
    "objects.discard_old_draft", "objects.purge_deleted",
    # test_unfinished.py: uploads in parts.
    "objects.abort_upload",
    # test_intake.py: news of a bucket.
    "objects.notifications.tell_again",  # library/test_reconcile.py
    "objects.notifications.add_events", "objects.notifications.add_rejected",
    "objects.notifications.keep_confirmations",
    # test_pulling.py: news that is fetched.
    "objects.receive_notices", "objects.answer_notices",
    # ingest/test_offload_kills.py: a file is measured there, and a worker delivers.
    "files.fsync_source", "objects.delivered",
]  # fmt: skip
# All the others, those included that are added tomorrow.
PUT = points_of("objects.", "files.", without=[*OVER_DAMAGE, *DELETE, *COLLECT, *SCRUB, *ELSEWHERE])


async def die(local: Local, url: str, what: str, point: str) -> None:
    """Another process dies at the point, while this one keeps putting the same bytes."""
    process = start(url, local.root.parent, what, f"{point}=exit")
    while process.poll() is None:
        await local.store.put("acme/other", stream(CONTENT), JPEG)
        await local.check()
        await local.store.delete("acme/other")
        await local.check()
    assert process.returncode == EXIT_CODE
    await local.check()


async def content(local: Local) -> bytes | None:
    try:
        return await joined((await local.store.get(KEY)).chunks)
    except NoSuchObject:
        return None


async def told(db: Database) -> list[str]:
    return [action for action, key, _ in await events(db) if key == KEY]


@pytest.mark.parametrize("point", PUT)
async def test_a_put(local: Local, database: Database, database_url: str, point: str) -> None:
    await die(local, database_url, "put", point)
    done = point == "files.discard_draft"
    assert await content(local) == (CONTENT if done else None)
    assert await told(database) == ["created"] * done
    await local.store.put(KEY, stream(CONTENT), JPEG)
    assert await content(local) == CONTENT
    assert await told(database) == ["created"] * (1 + done)


@pytest.mark.parametrize("point", OVER_DAMAGE)
async def test_a_put_over_a_damaged_file(
    local: Local, database: Database, database_url: str, point: str
) -> None:
    await local.store.put("acme/old", stream(CONTENT), JPEG)
    local.blobs.path(SHA256).write_bytes(b"rotten")
    process = start(database_url, local.root.parent, "put", f"{point}=exit")
    assert await asyncio.to_thread(process.wait, 30) == EXIT_CODE
    assert await told(database) == []
    await local.store.put(KEY, stream(CONTENT), JPEG)
    await local.check()
    assert await content(local) == CONTENT


@pytest.mark.parametrize("point", DELETE)
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
    await Collect(local.units, local.blobs, Metrics(), grace_ms=GRACE_MS).run()
    assert set(local.files()) == {digest(b"kept")}
    assert await database.fetchval("SELECT count(*) FROM blobs") == 1


@pytest.mark.parametrize("point", SCRUB)
async def test_a_scrub(local: Local, database: Database, database_url: str, point: str) -> None:
    """The damage is told of once, however often one begins."""
    await local.store.put(KEY, stream(CONTENT), JPEG)
    local.blobs.path(SHA256).write_bytes(b"rotten")
    process = start(database_url, local.root.parent, "scrub", f"{point}=exit")
    assert await asyncio.to_thread(process.wait, 30) == EXIT_CODE
    await Scrub(local.units, local.blobs, Metrics()).run()
    assert await database.fetchval("SELECT array_agg(state) FROM blobs") == ["damaged"]
    told = await database.fetchval("SELECT array_agg(type) FROM activity")
    assert told == ["original_damaged"]
    await local.store.put(KEY, stream(CONTENT), JPEG)
    assert await content(local) == CONTENT
