"""What is forgotten, and when."""

import pytest

from objects.stores import Local, stream
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.objects.store import Facts
from safelight.objects.upkeep import DAY_MS, PurgeObjects

JPEG = Facts("image/jpeg")


def purge(local: Local) -> PurgeObjects:
    return PurgeObjects(local.units, local.blobs.drafts)


async def test_old_drafts_go(local: Local) -> None:
    draft = local.blobs.drafts / "draft_left"
    draft.write_bytes(b"half")
    local.clock.ms = draft.stat().st_ctime_ns // 1_000_000 + DAY_MS
    await purge(local).run()
    assert local.drafts() == [draft]
    local.clock.ms += 1
    await purge(local).run()
    assert local.drafts() == []


@pytest.mark.parametrize("point", ["objects.discard_old_draft", "objects.purge_deleted"])
async def test_interrupted_anywhere_it_goes_on(local: Local, point: str) -> None:
    (local.blobs.drafts / "draft_left").write_bytes(b"half")
    await local.store.delete("acme/gone")
    local.clock.ms = local.clock.now_ms() + 31 * DAY_MS
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await purge(local).run()
    await purge(local).run()
    assert local.drafts() == []
    assert await local.db.fetchval("SELECT count(*) FROM objects") == 0


async def test_old_tombstones_and_events_go(local: Local) -> None:
    local.clock.ms = 1000
    await local.store.put("acme/cat.jpg", stream(b"1"), JPEG)
    await local.store.delete("acme/cat.jpg")
    await local.store.put("thumbnails/a", stream(b"2"), JPEG)
    local.clock.ms += 31 * DAY_MS
    await purge(local).run()
    assert await local.db.fetchval("SELECT array_agg(key) FROM objects") == ["thumbnails/a"]
    # Those of the upload are not delivered yet, however old.
    assert await local.db.fetchval("SELECT count(*) FROM object_events") == 2
