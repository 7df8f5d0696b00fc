"""Blobs go when nothing refers to them any more, and never under a put's feet."""

import asyncio
from pathlib import Path

import pytest

from objects.stores import Local, digest, stream
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.files import joined
from safelight.infra.lost_found import HANDFUL, KEPT_MS
from safelight.infra.metrics import Metrics
from safelight.objects import repo
from safelight.objects.store import Facts, Landed, NoSuchObject, Retake
from safelight.objects.upkeep import STRAY_MS, Collect

KEY = "acme/cat.jpg"
JPEG = Facts("image/jpeg")
DAY_MS = 86_400_000
STEPS = [
    "objects.condemn", "lost_found.move", "objects.set_walk", "objects.next_epoch",
    "objects.unlink", "objects.delete_blobs",
]  # fmt: skip


def collect(local: Local, grace_ms: int = 0) -> Collect:
    return Collect(local.units, local.blobs, Metrics(), grace_ms=grace_ms)


async def states(db: Database) -> dict[str, str]:
    return {row["sha256"]: row["state"] for row in await db.fetch("SELECT * FROM blobs")}


async def test_nothing_is_removed_that_is_referred_to(local: Local) -> None:
    local.clock.ms = 1000
    await local.store.put("acme/a", stream(b"shared"), JPEG)
    await local.store.put("acme/b", stream(b"shared"), JPEG)
    await local.store.put("acme/c", stream(b"only"), JPEG)
    await local.store.delete("acme/a")
    local.clock.ms += 10 * DAY_MS
    assert await collect(local).run() == 0
    assert set(local.files()) == {digest(b"shared"), digest(b"only")}
    assert set((await states(local.db)).values()) == {"live"}


async def test_what_was_replaced_or_deleted_stays_for_the_grace_period(local: Local) -> None:
    local.clock.ms = 1000
    await local.store.put("acme/a", stream(b"old"), JPEG)
    await local.store.put("acme/a", stream(b"new"), JPEG)
    await local.store.put("acme/b", stream(b"gone"), JPEG)
    await local.store.delete("acme/b")
    local.clock.ms += DAY_MS
    assert await collect(local, DAY_MS).run() == 0
    assert len(local.files()) == 3
    local.clock.ms += 1
    assert await collect(local, DAY_MS).run() == 2
    assert set(local.files()) == set(await states(local.db)) == {digest(b"new")}


async def share(local: Local, key: str) -> str | None:
    async with local.db.transaction() as connection:
        return await repo.share(connection, KEY, digest(b"bytes"), key, local.clock.now_ms())


async def test_a_second_key_holds_bytes(local: Local) -> None:
    local.clock.ms = 1000
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    assert await share(local, "submissions/1") == digest(b"bytes")
    await local.store.delete(KEY)
    local.clock.ms = 2000
    assert await collect(local).run() == 0
    await local.store.delete("submissions/1")
    local.clock.ms = 3000
    assert await collect(local).run() == 1
    assert local.files() == {}


async def test_a_share_cut_off_leaves_no_key(local: Local) -> None:
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    failpoints.arm("objects.share", "raise")
    with pytest.raises(FailpointError):
        await share(local, "submissions/1")
    failpoints.disarm()
    with pytest.raises(NoSuchObject):
        await local.store.head("submissions/1")
    assert await share(local, "submissions/1") == digest(b"bytes")


async def test_what_is_gone_cannot_be_shared(local: Local) -> None:
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    await local.store.delete(KEY)
    assert await share(local, "submissions/1") is None


async def test_a_put_revives_a_condemned_blob(local: Local) -> None:
    sha256 = digest(b"bytes")
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    await local.store.delete(KEY)
    assert await repo.condemn(local.db, local.clock.now_ms() + 1, 10) == 1
    local.blobs.remove([sha256])
    await local.store.put("acme/again", stream(b"bytes"), JPEG)
    assert await states(local.db) == {sha256: "live"}
    assert await collect(local).run() == 0
    assert local.files() == {sha256: b"bytes"}


async def test_a_shard_in_use_is_left_for_later(local: Local) -> None:
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    await local.store.delete(KEY)
    local.clock.ms = local.clock.now_ms() + 1000
    sha256 = digest(b"bytes")
    held = local.blobs.stage(local.blobs.path(sha256), None, None).hold
    assert await collect(local).run() == 0
    assert await states(local.db) == {sha256: "condemned"}
    assert local.files() == {sha256: b"bytes"}
    held.release()
    assert await collect(local).run() == 1


async def test_the_last_words_of_a_dead_put_are_refused(local: Local) -> None:
    """Its process is gone and its lock with it; only its statement is still on the way."""
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    await local.store.delete(KEY)
    local.clock.ms = local.clock.now_ms() + 1000
    sha256 = digest(b"bytes")
    landed: list[Landed] = []

    async def dying(what: Landed) -> None:
        landed.append(what)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await local.store.put_with("acme/dead", stream(b"bytes"), JPEG, dying)
    assert await collect(local).run() == 1
    async with local.db.connection() as connection:
        with pytest.raises(Retake):
            await repo.put(connection, "acme/dead", landed[0], JPEG, 1)
    assert await states(local.db) == {}
    # Somebody alive learns the new epoch and goes on.
    await local.store.put("acme/alive", stream(b"bytes"), JPEG)
    assert local.files() == {sha256: b"bytes"}


async def leave_stray(local: Local) -> None:
    """As a put does that dies before its rows are written."""
    failpoints.arm("objects.record_put", "raise")
    with pytest.raises(FailpointError):
        await local.store.put("acme/stray", stream(b"stray"), JPEG)
    failpoints.disarm()


async def walk_round(local: Local) -> int:
    """As many runs as it takes to look through the whole directory."""
    return sum([await collect(local).run() for _ in range(8)])


def set_aside(local: Local) -> set[str]:
    return {file.path.name for file in local.blobs.lost.files()}


async def test_strays_are_set_aside_when_they_are_old(local: Local) -> None:
    await leave_stray(local)
    foreign = local.root / digest(b"stray")[:2] / "README"
    foreign.write_text("not ours")
    await local.store.put("acme/b", stream(b"kept"), JPEG)
    now = local.clock.ms = local.clock.now_ms() + STRAY_MS - 60_000
    await walk_round(local)
    assert len(local.files()) == 2
    local.clock.ms = now + 120_000
    await walk_round(local)
    assert set(local.files()) == {digest(b"kept")}
    assert foreign.exists()
    assert set_aside(local) == {digest(b"stray")}
    local.clock.ms = now + KEPT_MS - STRAY_MS - 120_000
    await walk_round(local)
    assert set_aside(local) == {digest(b"stray")}
    local.clock.ms = now + KEPT_MS
    await walk_round(local)
    assert set_aside(local) == set()


async def test_a_blob_that_the_database_knows_again_goes_back(local: Local) -> None:
    """As after a backup of the database was restored that was too old, and then the right one."""
    await local.store.put(KEY, stream(b"bytes"), JPEG)
    rows = await local.db.fetch("DELETE FROM objects RETURNING *")
    await local.db.execute("DELETE FROM blobs")
    local.clock.ms = local.clock.now_ms() + STRAY_MS + 1000
    await walk_round(local)
    assert set_aside(local) == {digest(b"bytes")}
    await local.db.execute("INSERT INTO blobs (sha256, size) VALUES ($1, 5)", digest(b"bytes"))
    await local.db.execute(
        "INSERT INTO objects SELECT * FROM jsonb_populate_record(NULL::objects, $1)", dict(rows[0])
    )
    await walk_round(local)
    assert local.files() == {digest(b"bytes"): b"bytes"}
    assert await joined((await local.store.get(KEY)).chunks) == b"bytes"


async def test_more_than_a_handful_of_strays_is_reported_and_left(local: Local) -> None:
    await local.store.put(KEY, stream(b"goes"), JPEG)
    await local.store.delete(KEY)
    for n in range(HANDFUL + 1):
        path = local.blobs.path(digest(b"%d" % n))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % n)
    local.clock.ms = local.clock.now_ms() + STRAY_MS + 1000
    metrics = Metrics()
    runs = [await Collect(local.units, local.blobs, metrics).run() for _ in range(8)]
    assert sum(runs) == 1, "the rest of its work goes on"
    assert len(local.files()) == HANDFUL + 1
    assert set_aside(local) == set()
    assert b'safelight_strays{directory="blobs"} 51.0' in metrics.render()


async def test_puts_and_collections_at_once(local: Local, tmp_path: Path) -> None:
    """Two contents and no grace: every put races a removal of the same bytes."""
    contents = [b"red", b"blue"]
    for content in contents:
        (tmp_path / content.decode()).write_bytes(content)
    shards = {digest(content)[:2] for content in contents}
    collecting = collect(local, grace_ms=-10_000)
    removed = 0

    async def put_and_delete(number: int) -> None:
        key, content = f"acme/{number}", contents[number % 2]
        while removed < 15:
            await local.store.put(key, tmp_path / content.decode(), JPEG)
            assert await joined((await local.store.get(key)).chunks) == content
            await local.store.delete(key)

    async def keep_collecting() -> None:
        nonlocal removed
        while removed < 15:
            await collecting._condemn()
            for shard in shards:
                removed += await collecting._remove(shard)

    await asyncio.gather(*map(put_and_delete, range(3)), keep_collecting(), keep_collecting())
    await local.check()


@pytest.mark.parametrize("point", STEPS)
async def test_interrupted_anywhere_it_goes_on(local: Local, point: str) -> None:
    await local.store.put("acme/a", stream(b"goes"), JPEG)
    await local.store.put("acme/b", stream(b"stays"), JPEG)
    await local.store.delete("acme/a")
    await leave_stray(local)
    local.clock.ms = local.clock.now_ms() + STRAY_MS + 1000
    failpoints.arm(point, "raise")
    with pytest.raises(FailpointError):
        await walk_round(local)
    failpoints.disarm()
    await local.check()
    await local.store.put("acme/c", stream(b"goes"), JPEG)
    await local.check()
    await local.store.delete("acme/c")
    local.clock.ms += 1000
    await walk_round(local)
    assert set(local.files()) == {digest(b"stays")}
    assert local.drafts() == []
