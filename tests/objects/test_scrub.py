"""Damage is found, told and healed by the same bytes; nothing is ever deleted for it."""

from pathlib import Path

import pytest

from objects.stores import Local, digest, stream
from safelight.infra.metrics import Metrics
from safelight.objects.store import DamagedObject, Facts
from safelight.objects.upkeep import SCRUB_ROUND_MS, Scrub

JPEG = Facts("image/jpeg")


def scrub(local: Local, seconds: float = 60) -> tuple[Scrub, Metrics]:
    metrics = Metrics()
    return Scrub(local.units, local.blobs, metrics, seconds=seconds), metrics


async def states(local: Local) -> list[str]:
    rows = await local.db.fetch("SELECT state FROM blobs ORDER BY state")
    return [row["state"] for row in rows]


async def told(local: Local) -> list[tuple[str, str, str]]:
    rows = await local.db.fetch("SELECT organization, subject, type FROM activity ORDER BY seq")
    return [tuple(row) for row in rows]


def rot(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.unlink()
    path.write_bytes(content)


async def test_all_is_well(local: Local) -> None:
    for n in range(25):
        await local.store.put(f"acme/{n}", stream(b"%d" % n), JPEG)
    scrubbing, metrics = scrub(local)
    assert await scrubbing.run() == 25
    assert await states(local) == ["live"] * 25
    assert await told(local) == []
    assert b"safelight_blobs_damaged 0.0" in metrics.render()


async def test_damage_is_told_once_and_healed(local: Local) -> None:
    for key in ("acme/a", "acme/b", "zeta/a", "thumbnails/x"):
        await local.store.put(key, stream(b"rotten"), JPEG)
    path = local.blobs.path(digest(b"rotten"))
    rot(path)
    damaged = path.read_bytes()
    scrubbing, metrics = scrub(local)
    for _ in range(2):
        local.clock.ms = local.clock.now_ms() + SCRUB_ROUND_MS
        await scrubbing.run()
    assert await states(local) == ["damaged"]
    assert path.read_bytes() == damaged
    assert b"safelight_blobs_damaged 1.0" in metrics.render()
    assert await told(local) == [
        ("acme", "upload:a", "original_damaged"),
        ("acme", "upload:b", "original_damaged"),
        ("zeta", "upload:a", "original_damaged"),
    ]
    await local.store.put("acme/c", stream(b"rotten"), JPEG)
    assert await states(local) == ["live"]
    assert path.read_bytes() == b"rotten"


async def test_a_missing_file(local: Local) -> None:
    await local.store.put("acme/a", stream(b"lost"), JPEG)
    local.blobs.path(digest(b"lost")).unlink()
    with pytest.raises(DamagedObject):
        await (await local.store.get("acme/a")).read()
    scrubbing, _ = scrub(local)
    await scrubbing.run()
    assert await states(local) == ["damaged"]
    await local.store.put("acme/b", stream(b"lost"), JPEG)
    assert await states(local) == ["live"]
    assert await (await local.store.get("acme/a")).read() == b"lost"


async def test_a_file_put_back_by_hand_heals(local: Local) -> None:
    await local.store.put("acme/a", stream(b"lost"), JPEG)
    path = local.blobs.path(digest(b"lost"))
    path.unlink()
    scrubbing, _ = scrub(local)
    await scrubbing.run()
    path.write_bytes(b"lost")
    local.clock.ms = local.clock.now_ms() + SCRUB_ROUND_MS
    await scrubbing.run()
    assert await states(local) == ["live"]
    assert (await told(local))[-1] == ("acme", "upload:a", "original_healed")


async def test_it_stops_in_time_and_goes_on(local: Local) -> None:
    for n in range(25):
        await local.store.put(f"acme/{n}", stream(b"%d" % n), JPEG)
    scrubbing, _ = scrub(local, seconds=0)
    counts = [await scrubbing.run() for _ in range(4)]
    assert counts == [10, 10, 5, 0]
    local.clock.ms = local.clock.now_ms() + SCRUB_ROUND_MS
    assert await scrubbing.run() == 10
