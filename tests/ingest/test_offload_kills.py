"""The worker dies at every step of an offload; the next one finishes it, once."""

import asyncio
from pathlib import Path

import pytest

from ingest.offloading import Yard
from objects.life import start
from objects.shared import shared, shared_url
from objects.stores import events
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import ImageStatus

__all__ = ["shared", "shared_url"]
pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("point", "first"),
    [
        ("ingest.put", 0),
        ("files.fsync_source", 0),
        ("objects.link", 0),
        ("objects.fsync_directory", 0),
        ("objects.record_put", 0),
        ("ingest.store", 0),
        ("objects.delivered", 1),  # stored, but its event not yet delivered
    ],
)
async def test_killed(
    shared: Database, shared_url: str, tmp_path: Path, point: str, first: int
) -> None:
    yard = Yard(shared, tmp_path, lease=0.5)
    images = [await yard.receive(f"{n}.jpg", b"%d" % n) for n in range(3)]
    process = start(shared_url, tmp_path, "offload", f"{point}=exit")
    assert await asyncio.to_thread(process.wait, 30) == EXIT_CODE
    assert len(await events(shared)) >= first
    for image in images:
        assert Path(image.temp_path).exists()
    async with yard.working():
        yard.queue.wake(OFFLOAD)
        await yard.idle()
    for n, image in enumerate(images):
        assert await yard.status(image) is ImageStatus.STORED
        assert await yard.content(image.name) == b"%d" % n
        assert [told["type"] for told in await yard.history(f"image:{image.id}")] == [
            "upload_stored"
        ]
    assert len(await events(shared)) == 3
    undelivered = "SELECT count(*) FROM object_events WHERE delivered_at IS NULL"
    assert await shared.fetchval(undelivered) == 0
    await yard.close()
