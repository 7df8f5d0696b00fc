"""A process that does one thing to a bucket and may die on the way."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nursery import Child, bear
from objects.stores import Bucket, Watch, settle, stream, units_of
from safelight.infra.db import Database
from safelight.objects import repo
from safelight.objects.reconcile import Standing
from safelight.objects.store import Cleared, Facts, ObjectStore

CONTENT = b"bytes that travel"
KEY = "acme/größe.jpg"
FACTS = Facts("image/jpeg", {"name": "größe.jpg", "idempotencyKey": "m1"})


class Stored:
    """Uploads that are stored, whose received files are gone."""

    async def standing(self, images: Sequence[str]) -> Mapping[str, Standing]:
        return dict.fromkeys(images, Standing(under_way=False, has_file=False))

    async def put_back(self, image: str) -> None:
        raise AssertionError(image)


def start(url: str, root: Path, bucket: Bucket, events: str, what: str, points: str) -> Child:
    there = (bucket.server, bucket.name, events)
    return bear("objects.bucket_life:live", url, str(root), *there, what, points=points)


async def live(url: str, directory: str, server: str, name: str, events: str, what: str) -> None:
    db = await Database.open(url, pool_size=5)
    clock = Watch()
    store = Bucket(server, name, None).store(db, Path(directory) / "spool", clock, events=events)
    if what == "put":
        await store.put(KEY, stream(CONTENT), FACTS)
    elif what == "delete":
        await store.delete(KEY)
    elif what == "settle":
        await settle(units_of(db, clock), store, Stored())
    else:
        await expire(db, store, clock, is_old=what == "expire")
    await store.close()
    await db.close()


async def expire(db: Database, store: ObjectStore, clock: Watch, *, is_old: bool) -> bool:
    """A delete that nobody asked for, as retention's."""

    async def still(_: int) -> bool:
        return is_old

    async def write(cleared: Cleared) -> bool:
        await repo.delete(db, KEY, cleared, clock.now_ms())
        return True

    return await store.delete_if(KEY, still, write)
