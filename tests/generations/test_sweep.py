"""What time removes, and what it must not; and the same with a bucket."""

from pathlib import Path
from typing import Any

import pytest

from emulators.media import png
from emulators.runware import Plan, Runware
from generations.world import World, world
from objects.stores import Bucket, Watch, fresh_bucket
from safelight.generations.lifecycle import key_of
from safelight.generations.sweep import GenerationSweep
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.objects.store import Facts, ObjectStore
from safelight.testing.waiting import until
from seaweed import Seaweed

DAY_MS = 86_400_000
SMALL = {"prompt": "p", "width": 64, "height": 64}


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


def at(made: World, ms: int, **options: Any) -> GenerationSweep:
    return GenerationSweep(made.db, made.store, Watch(ms), keep_days=7, **options)


async def content_of(store: ObjectStore, key: str) -> bytes:
    return await joined((await store.get(key)).chunks)


async def test_state_in_flight_is_purged_and_the_library_stays(
    database_url: str, directory: Path
) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        done = await client.over(await client.ask("studio/horizon", input=SMALL))
        waiting = await client.ask("studio/horizon", input={**SMALL, "delaySeconds": 60})
        now = Watch().now_ms()
        assert await at(made, now + 6 * DAY_MS).purge() == 0
        assert await at(made, now + 8 * DAY_MS).purge() == 1
        assert await client.show(done["id"]) == done
        assert (await client.show(waiting))["status"] == "active"
        rows = await made.db.fetch("SELECT generation_id FROM generation_tasks")
        assert [row["generation_id"] for row in rows] == [waiting]


async def test_orphans_go_once_they_are_old(database_url: str, directory: Path) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        done = await client.over(await client.ask("studio/horizon", input=SMALL))
        kept = key_of(done["tasks"][0]["artifactId"])
        pending = await client.ask("studio/horizon", input={**SMALL, "delaySeconds": 60})
        working = (await client.show(pending))["tasks"][0]["artifactId"]
        for name in ("orphan", working):
            await made.store.put(key_of(name), _bytes(png()), Facts("image/png"))
        await made.store.put("acme/upload.png", _bytes(png()), Facts("image/png"))
        now = Watch().now_ms()
        assert await at(made, now).orphans() == 0
        assert await at(made, now + 2 * DAY_MS).orphans() == 1
        keys = {one.key for one in await made.store.list()}
        assert keys == {kept, key_of(working), "acme/upload.png"}
        assert await at(made, now + 2 * DAY_MS).orphans() == 0


async def test_with_a_bucket(
    database_url: str, directory: Path, vendor: Runware, bucket: Bucket
) -> None:
    """Cut off after the bytes are in the bucket, before the row: the next attempt puts them again."""

    def opened(db: Database) -> ObjectStore:
        return bucket.store(db, directory / "spool", Watch())

    failpoints.arm("objects.record_bucket_put", "raise@1")
    async with (
        world(database_url, directory, open_store=opened, **vendor.settings) as made,
        made.client() as client,
    ):
        done = await client.over(await client.ask())
        assert done["status"] == "ready"
        artifact = done["tasks"][0]["artifactId"]
        assert bucket.keys() == [key_of(artifact)]
        content = await client.http.get(f"/artifacts/{artifact}/content")
        assert content.content == png()
        assert len(vendor.submitted) == 1
        assert (await client.http.delete(f"/artifacts/{artifact}")).status_code == 204
        assert bucket.keys() == []


async def test_a_bucket_left_with_what_nobody_wants(
    database_url: str, directory: Path, vendor: Runware, bucket: Bucket
) -> None:
    """Cancelled while the bytes were on their way to the bucket: no artifact, and the sweep tidies."""

    def opened(db: Database) -> ObjectStore:
        return bucket.store(db, directory / "spool", Watch())

    vendor.default = Plan()
    failpoints.arm("objects.record_bucket_put", "hang")
    async with (
        world(database_url, directory, open_store=opened, **vendor.settings) as made,
        made.client() as client,
    ):
        generation = await client.ask()
        await until(bucket.keys)
        await client.http.post(f"/generations/{generation}/cancel")
        failpoints.disarm()
        await until(lambda: made.db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)"))
        assert await client.items("/artifacts") == []
        assert await at(made, Watch().now_ms() + 2 * DAY_MS).orphans() == 1
        assert bucket.keys() == []


async def _bytes(content: bytes) -> Any:
    yield content
