"""An upload reaches permanent storage by itself, once, and the newest of a name wins."""

import asyncio
import errno
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ingest.offloading import ACTOR, Yard
from objects.shared import shared, shared_url
from objects.stores import events
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Done, Job, LeaseLost, Retry
from safelight.ingest import jobs, repo
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.objects import jobs as objects
from safelight.objects import repo as objects_repo

__all__ = ["shared", "shared_url"]
ENDED = Done(already=True)


@pytest.fixture
async def yard(shared: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    made = Yard(shared, tmp_path)
    yield made
    await made.close()


async def test_an_upload_is_stored(yard: Yard) -> None:
    image = await yard.receive()
    assert await yard.bring(image) == ENDED
    assert await yard.status(image) is ImageStatus.STORED
    assert yard.store
    info = await yard.store.head("acme/cat.jpg")
    assert info.metadata == {
        "organizationId": "acme", "name": "cat.jpg", "idempotencyKey": image.idempotency_key,
        "imageId": image.id, "width": "3", "height": "2",
    }  # fmt: skip
    assert (info.content_type, info.etag, info.size) == ("image/jpeg", image.checksum, 4)
    assert await yard.content() == b"meow"
    [told] = await yard.history(f"image:{image.id}")
    assert told == {
        "type": "upload_stored", "from": "INGESTED", "to": "STORED", "imageId": image.id,
        "name": "cat.jpg", "eventTime": iso(info.event_time),
    }  # fmt: skip
    assert await yard.history("upload:cat.jpg") == [told]
    assert await events(yard.db) == [("created", "acme/cat.jpg", info.event_time)]
    assert await yard.jobs_left() == ["objects.deliver"]


async def test_the_bytes_are_linked_not_copied(yard: Yard) -> None:
    image = await yard.receive()
    await yard.bring(image)
    assert Path(image.temp_path).stat().st_nlink == 2


async def test_the_worker_does_it_all(yard: Yard) -> None:
    """Offload and delivery, the second one handed over without another claim."""
    async with yard.working():
        images = [await yard.receive(f"{n}.jpg", b"%d" % n) for n in range(20)]
        yard.queue.wake(jobs.OFFLOAD)
        await yard.idle()
    assert {await yard.status(image) for image in images} == {ImageStatus.STORED}
    undelivered = "SELECT count(*) FROM object_events WHERE delivered_at IS NULL"
    assert await yard.db.fetchval(undelivered) == 0
    assert await yard.db.fetchval("SELECT count(*) FROM object_events") == 20


async def test_the_delivery_is_leased_to_this_worker(yard: Yard) -> None:
    handed: list[Job[Any]] = []
    yard.queue.employ(handed.append)
    image = await yard.receive()
    await yard.bring(image)
    row = await yard.db.fetchrow("SELECT id, status, owner FROM jobs")
    assert row
    assert (row["status"], row["owner"]) == ("running", yard.queue.owner)
    [job] = handed
    assert (job.id, job.kind, job.payload.name) == (row["id"], objects.DELIVER, "cat.jpg")
    assert await yard.deliver.handle(job) == ENDED
    assert await yard.jobs_left() == []


async def test_what_is_remembered_is_what_was_written(yard: Yard) -> None:
    """The delivery may skip reading its event: it must not make a difference."""
    await yard.bring(await yard.receive())
    [(event_id, remembered)] = yard.deliver._fresh._known.items()
    assert remembered == await objects_repo.event(yard.db, event_id)


async def test_doing_it_twice_changes_nothing(yard: Yard) -> None:
    image = await yard.receive()
    job = await yard.claim(image)
    assert await yard.offload.handle(job) == ENDED
    everything = "SELECT objects::text, images::text, activity::text FROM objects, images, activity"
    before = await yard.db.fetch(everything)
    assert await yard.offload.handle(job) == Done()
    assert await yard.db.fetch(everything) == before


async def test_one_that_lost_its_job_writes_nothing(yard: Yard) -> None:
    image = await yard.receive()
    job = await yard.claim(image)
    again = await yard.claim(image)
    with pytest.raises(LeaseLost):
        await yard.offload.handle(job)
    assert await yard.status(image) is ImageStatus.INGESTED
    assert await yard.content() is None
    assert await yard.offload.handle(again) == ENDED


async def test_two_workers_at_once(yard: Yard) -> None:
    """The first still holds the job in its hands, the second was given it."""
    image = await yard.receive()
    first, second = await yard.claim(image), await yard.claim(image)
    answers = await asyncio.gather(
        yard.offload.handle(first), yard.offload.handle(second), return_exceptions=True
    )
    assert answers[1] == ENDED
    assert isinstance(answers[0], LeaseLost) or answers[0] == Done()
    assert len(await events(yard.db)) == 1


# What cannot be stored


async def failure(yard: Yard, image: Image) -> str:
    assert await yard.bring(image) == ENDED
    assert await yard.status(image) is ImageStatus.FAILED
    told = (await yard.history(f"image:{image.id}"))[-1]
    assert (told["from"], told["to"], told["type"]) == ("INGESTED", "FAILED", "upload_failed")
    failed = await repo.find(yard.db, image.id)
    assert failed is not None
    assert await repo.failures(yard.db, "acme", [failed]) == {image.id: told["error"]}
    assert await yard.content(image.name) is None
    assert await yard.jobs_left() == []
    assert await events(yard.db) == []
    return str(told["error"]["code"])


async def test_cut_off_while_it_fails(yard: Yard) -> None:
    """It comes again and fails once; both attempts are in its story."""
    image = await yard.receive()
    Path(image.temp_path).unlink()
    failpoints.arm("ingest.fail", "raise@1")
    assert isinstance(await yard.bring(image), Retry)
    assert await yard.status(image) is ImageStatus.INGESTED
    assert await yard.bring(image) == ENDED
    assert await yard.status(image) is ImageStatus.FAILED
    told = [line["type"] for line in await yard.history(f"image:{image.id}")]
    assert told == ["offload_attempt", "upload_failed"]


async def test_a_missing_file(yard: Yard) -> None:
    image = await yard.receive()
    Path(image.temp_path).unlink()
    assert await failure(yard, image) == "FILE_MISSING"


@pytest.mark.parametrize("content", [b"", b"meoW", b"meow "])
async def test_a_changed_file(yard: Yard, content: bytes) -> None:
    image = await yard.receive()
    Path(image.temp_path).write_bytes(content)
    assert await failure(yard, image) == "CHECKSUM_ERROR"


async def test_a_directory_that_is_not_there(yard: Yard) -> None:
    """An unmounted volume is no reason to give an image up."""
    image = await yard.receive()
    away = yard.root / "away"
    yard.directory.path.rename(away)
    yard.directory.path.mkdir()
    verdict = await yard.bring(image)
    assert isinstance(verdict, Retry)
    assert await yard.status(image) is ImageStatus.INGESTED
    [told] = await yard.history(f"image:{image.id}")
    assert str(yard.root) not in told["error"]["message"]
    assert "volume" in told["error"]["message"]
    yard.directory.path.rmdir()
    away.rename(yard.directory.path)
    assert await yard.bring(image) == ENDED
    assert await yard.content() == b"meow"


async def test_another_nodes_job_is_never_ours(yard: Yard) -> None:
    image = await yard.receive()
    elsewhere = Yard(yard.db, yard.root / "elsewhere")
    claimed = await yard.db.fetch(
        "SELECT * FROM job_claim($1, $2, $3, $4, $5, interval '1 minute')",
        ["ingest.offload"], [10], [""], elsewhere.directory.node, "other",
    )  # fmt: skip
    assert claimed == []
    await elsewhere.close()
    assert await yard.bring(image) == ENDED


async def test_trouble_is_retried_and_told(yard: Yard) -> None:
    image = await yard.receive()
    failpoints.arm("objects.fsync_directory", "enospc@1")
    verdict = await yard.bring(image)
    assert isinstance(verdict, Retry)
    assert await yard.status(image) is ImageStatus.INGESTED
    [told] = await yard.history(f"image:{image.id}")
    assert (told["type"], told["attempt"]) == ("offload_attempt", 1)
    assert "space" in told["error"]["message"]
    assert await yard.bring(image) == ENDED


async def test_where_our_files_are_is_nobodys_news(yard: Yard) -> None:
    """A file stands where a directory of blobs belongs."""
    image = await yard.receive()
    shard = yard.root / "blobs" / image.checksum[:2]
    shard.write_bytes(b"in the way")
    verdict = await yard.bring(image)
    assert isinstance(verdict, Retry)
    assert str(yard.root) in str(verdict.error)
    [told] = await yard.history(f"image:{image.id}")
    assert told["error"] == {"code": "NotADirectoryError", "message": "Not a directory."}
    shard.unlink()
    assert await yard.bring(image) == ENDED


# Who wins


async def test_the_newer_upload_wins_in_turn(yard: Yard) -> None:
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    await yard.bring(old)
    await yard.bring(new)
    assert await yard.content() == b"new"
    assert [action for action, _, _ in await events(yard.db)] == ["created", "created"]


async def test_the_newer_upload_wins_out_of_turn(yard: Yard) -> None:
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    await yard.bring(new)
    assert await yard.bring(old) == ENDED
    assert await yard.content() == b"new"
    assert await yard.status(old) is ImageStatus.STORED
    [(_, _, event_time)] = await events(yard.db)
    [told] = await yard.history(f"image:{old.id}")
    assert told == {
        "type": "image_superseded", "from": "INGESTED", "to": "STORED", "imageId": old.id,
        "name": "cat.jpg", "reason": "superseded",
        "beatenBy": {"eventTime": iso(event_time), "idempotencyKey": new.idempotency_key},
    }  # fmt: skip
    blob = await yard.db.fetchrow("SELECT * FROM blobs WHERE sha256 = $1", old.checksum)
    assert blob
    assert blob["released_at"] is not None


async def test_at_the_same_moment_the_larger_id_wins(yard: Yard) -> None:
    a = await yard.receive(content=b"a", at=1000, id="img_2026-01-01_a")
    b = await yard.receive(content=b"b", at=1000, id="img_2026-01-01_b")
    await yard.bring(b)
    await yard.bring(a)
    assert await yard.content() == b"b"


async def test_all_at_once(yard: Yard) -> None:
    images = [await yard.receive(content=b"%d" % n) for n in range(8)]
    tasks = [yard.bring(image) for image in images]
    random.shuffle(tasks)
    await asyncio.gather(*tasks)
    assert await yard.content() == b"7"
    assert {await yard.status(image) for image in images} == {ImageStatus.STORED}


# Deleting


async def test_a_delete_is_an_event(yard: Yard) -> None:
    await yard.bring(await yard.receive())
    await yard.delete()
    assert await yard.content() is None
    assert [action for action, _, _ in await events(yard.db)] == ["created", "deleted"]
    assert await yard.jobs_left() == ["objects.deliver", "objects.deliver"]
    last = (await yard.history("upload:cat.jpg"))[-1]
    assert last == {"type": "upload_delete_requested", "name": "cat.jpg", "actor": ACTOR}


async def test_what_was_on_its_way_stays_away(yard: Yard) -> None:
    image = await yard.receive()
    other = await yard.receive("dog.jpg", b"woof")
    await yard.delete()
    await yard.delete()
    later = await yard.receive(content=b"later")
    for waiting in (image, other):
        assert await yard.bring(waiting) == ENDED
    assert await yard.content() is None
    assert await yard.content("dog.jpg") == b"woof"
    [told] = await yard.history(f"image:{image.id}")
    assert (told["reason"], told["to"]) == ("deleted", "STORED")
    assert told["beatenBy"]["eventTime"]
    assert await yard.db.fetchval("SELECT count(*) FROM delete_intents") == 0
    await yard.bring(later)
    assert await yard.content() == b"later"


async def test_a_slow_clock_loses_no_upload(yard: Yard) -> None:
    """Received after the delete, by a machine whose clock says otherwise."""
    await yard.bring(await yard.receive(at=2_000))
    await yard.delete()
    late = await yard.receive(content=b"late", at=1_000)
    await yard.bring(late)
    assert await yard.content() == b"late"


@pytest.mark.parametrize("seed", range(12))
async def test_any_order_ends_the_same(yard: Yard, seed: int) -> None:
    """Uploads, deletes and offloads in any order: what was received last since the last delete."""
    chance = random.Random(seed)
    waiting: list[Image] = []
    expected: bytes | None = None
    for step in range(30):
        match chance.choice(["receive", "receive", "bring", "bring", "delete"]):
            case "receive":
                expected = b"%d" % step
                waiting.append(await yard.receive(content=expected))
            case "bring" if waiting:
                await yard.bring(waiting.pop(chance.randrange(len(waiting))))
            case "delete":
                expected = None
                await yard.delete()
    chance.shuffle(waiting)
    await asyncio.gather(*map(yard.bring, waiting))
    assert await yard.content() == expected
    told = await events(yard.db)
    assert (told[-1][0] == "created") == (expected is not None) if told else expected is None
    assert [time for *_, time in told] == sorted({time for *_, time in told})


async def test_a_copy_when_linking_is_impossible(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file system, as seen by the one call that tells."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    image = await yard.receive(content=b"x" * 3_000_000)
    assert await yard.bring(image) == ENDED
    assert await yard.content() == b"x" * 3_000_000
    assert list((yard.root / "blobs" / "drafts").iterdir()) == []
