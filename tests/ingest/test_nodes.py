"""Machines that do not come back: missed within a minute, given up in one step, and welcome if they do
come back after all."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingest.machines import Machine
from safelight.admin.scrape import Scrape
from safelight.errors import NotFound
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.metrics import Metrics
from safelight.ingest import repo
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.nodes.give_up import CountDiffers, NodeAlive
from safelight.ingest.nodes.lifecycle import MACHINE_LOST, Node, NodeStanding
from safelight.quotas import repo as quotas

UPLOADS = 50


@pytest.fixture
async def two(database: Database, tmp_path: Path) -> AsyncIterator[tuple[Machine, Machine]]:
    """One that stays, and one that will not."""
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    machines = [Machine(database, tmp_path / name, tmp_path / "blobs") for name in ("a", "b")]
    for machine in machines:
        await machine.start()
    yield machines[0], machines[1]
    machines[0].yard.directory.close()


class Agreed:
    """Where bucket, index and library do."""

    async def left(self) -> dict[str, int]:
        return {}


async def used(machine: Machine) -> int:
    found = {q.meter: q for q in await quotas.quotas(machine.yard.db, "acme", 0)}
    return next(quota.used for meter, quota in found.items() if meter == "stored_bytes")


async def became(machine: Machine, images: list[Image]) -> set[ImageStatus]:
    return set((await repo.statuses(machine.yard.db, [image.id for image in images])).values())


def a_node(**facts: Any) -> Node:
    silence: dict[str, Any] = {"silent": 0.0, "served": False, "uploads": 0, "others": 0}
    times = dict.fromkeys(("answered", "worked", "first_seen", "oldest"))
    return Node(id="n", host="", directory="", version="", **{**times, **silence, **facts})


@pytest.mark.parametrize(
    ("facts", "standing"),
    [
        ({"silent": 44.0, "uploads": 1}, NodeStanding.ALIVE),
        ({"silent": 45.0, "uploads": 1}, NodeStanding.MISSING),
        ({"silent": 45.0, "others": 1}, NodeStanding.MISSING),
        ({"silent": 45.0, "served": True}, NodeStanding.GONE),
        ({"silent": None, "uploads": 1}, NodeStanding.MISSING),
        ({"silent": None, "served": True, "uploads": 1}, NodeStanding.ALIVE),
    ],
)
def test_who_is_missing(facts: dict[str, Any], standing: NodeStanding) -> None:
    assert a_node(**facts).standing is standing


def test_what_it_did_when_it_was_last_seen() -> None:
    assert a_node(answered=1_000_000, worked=990_000).roles == ["serve", "work"]
    assert a_node(answered=1_000_000, worked=100_000).roles == ["serve"]
    assert a_node().roles == []


async def test_a_destroyed_machine_is_missed_and_told_of_once(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    await gone.destroyed(UPLOADS)
    with capture_logs() as logs:
        await stays.signs.tell()
        await stays.signs.tell()
    [line] = [line for line in logs if line["event"].startswith("a machine is missing")]
    assert (line["node"], line["uploads"], line["log_level"]) == (gone.id, UPLOADS, "warning")
    first, second = await stays.nodes.all()
    assert (first.id, first.standing, first.uploads) == (gone.id, NodeStanding.MISSING, UPLOADS)
    assert (second.id, second.standing) == (stays.id, NodeStanding.ALIVE)
    metrics, agreed = Metrics(), Agreed()
    text = await Scrape(stays.yard.queue, stays.nodes, agreed, metrics, stays.yard.clock).text()
    for said in ("nodes_missing 1.0", "uploads_stranded 50.0", "jobs_stranded 50.0"):
        assert f"safelight_{said}".encode() in text


async def test_one_that_nobody_needs_is_not_missed(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    await gone.destroyed()
    with capture_logs() as logs:
        await stays.signs.tell()
    assert logs == []
    found = await stays.seen(gone.id)
    assert found
    assert found.standing is NodeStanding.GONE
    await gone.silent(8 * 86_400)
    await stays.sweep()
    assert await stays.seen(gone.id) is None


async def test_a_clock_that_was_set_back_keeps_nobody_alive(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    await gone.destroyed(1)
    await gone.silent(-3600)
    found = await stays.seen(gone.id)
    assert found
    assert found.standing is NodeStanding.MISSING


async def test_given_up_in_one_step(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    images = await gone.destroyed(UPLOADS)
    before = await used(stays)
    actor = {"type": "token", "name": "ops"}
    assert await stays.nodes.give_up(gone.id, UPLOADS, actor) == UPLOADS
    assert await became(stays, images) == {ImageStatus.FAILED}
    assert await stays.yard.jobs_left() == []
    assert await stays.seen(gone.id) is None
    assert await used(stays) == before - sum(image.size_bytes for image in images)
    told = (await stays.yard.history(f"image:{images[7].id}"))[-1]
    assert told == {
        "type": "upload_failed", "from": "INGESTED", "to": "FAILED", "imageId": images[7].id,
        "name": "7.jpg", "node": gone.id, "actor": actor, "error": MACHINE_LOST.to_json(),
    }  # fmt: skip
    failures = await repo.failures(stays.yard.db, "acme", [await reread(stays, images[7])])
    assert failures[images[7].id]["code"] == "MACHINE_LOST"


async def reread(machine: Machine, image: Image) -> Image:
    found = await repo.find(machine.yard.db, image.id)
    assert found
    return found


async def test_nobody_gives_up_blindly_or_what_lives(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    image = await gone.yard.receive()
    with pytest.raises(NodeAlive):
        await stays.nodes.give_up(gone.id, 1)
    await gone.silent()
    with pytest.raises(CountDiffers, match="say 1"):
        await stays.nodes.give_up(gone.id, 0)
    with pytest.raises(NotFound):
        await stays.nodes.give_up("node_nobody", 0)
    assert await stays.yard.status(image) is ImageStatus.INGESTED


async def test_one_that_comes_back_meanwhile_is_given_up_no_further(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, gone = two
    images = await gone.destroyed(3)
    monkeypatch.setattr("safelight.ingest.nodes.give_up._AT_ONCE", 1)
    armed = failpoints.arm("ingest.nodes.lose", "raise@2")
    with pytest.raises(FailpointError):
        await stays.nodes.give_up(gone.id, 3)
    assert armed.passes == 2
    await gone.signs.tell()
    with pytest.raises(NodeAlive):
        await stays.nodes.give_up(gone.id, 2)
    assert sorted([await stays.yard.status(image) for image in images]) == [
        "FAILED", "INGESTED", "INGESTED",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "point", ["ingest.nodes.lose", "ingest.nodes.not_put_back", "ingest.nodes.forget"]
)
async def test_giving_up_cut_off_is_done_again(two: tuple[Machine, Machine], point: str) -> None:
    stays, gone = two
    images = await gone.destroyed(2)
    await gone.yard.db.execute("UPDATE images SET name = 'x' || name, node = 'kept'")
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await stays.nodes.give_up(gone.id, 2)
    assert armed.passes
    left = await stays.seen(gone.id)
    assert left
    await stays.nodes.give_up(gone.id, left.uploads)
    assert await became(stays, images) == {ImageStatus.FAILED}
    for image in images:
        story = [line["type"] for line in await stays.yard.history(f"image:{image.id}")]
        assert story.count("upload_failed") == 1


async def test_what_a_bucket_was_to_be_given_again_is_told(two: tuple[Machine, Machine]) -> None:
    stays, gone = two
    image = await gone.yard.receive()
    await gone.bring(image.id)
    db = stays.yard.db
    await db.execute("UPDATE images SET node = $1", gone.id)
    await repo.put_back(db, image.id)
    await gone.destroyed()
    assert await stays.nodes.give_up(gone.id, 0) == 0
    letter = await db.fetchrow(
        "SELECT kind, status, error ->> 'code' AS code FROM jobs WHERE status = 'dead'"
    )
    assert letter
    assert tuple(letter) == ("ingest.put_back", "dead", "ORIGINAL_LOST")
    assert await db.fetchval("SELECT node FROM images") is None


# Coming back


async def back(gone: Machine) -> Machine:
    """The same directory, with a server on it."""
    machine = Machine(gone.yard.db, gone.directory.parent, gone.directory.parent.parent / "blobs")
    assert machine.id == gone.id
    return machine


async def test_one_that_comes_back_after_all_brings_its_images(
    two: tuple[Machine, Machine],
) -> None:
    stays, gone = two
    images = await gone.destroyed(3)
    before = await used(stays)
    await stays.nodes.give_up(gone.id, 3)
    again = await back(gone)
    with capture_logs() as logs:
        await again.start()
    assert any("uploads are back" in line["event"] and line["count"] == 3 for line in logs)
    assert await became(stays, images) == {ImageStatus.INGESTED}
    assert await used(stays) == before
    await again.bring_all()
    assert await became(stays, images) == {ImageStatus.STORED}
    assert await stays.yard.content("2.jpg") == b"2"
    story = [line["type"] for line in await stays.yard.history(f"image:{images[2].id}")]
    assert story == ["upload_failed", "image_uploaded", "upload_ingested", "upload_stored"]
    again.yard.directory.close()


async def test_one_that_was_only_cut_off_finds_its_images_by_the_clock(
    two: tuple[Machine, Machine],
) -> None:
    """It never restarted, and does not know that it was given up."""
    stays, cut_off = two
    db, tick = stays.yard.db, f"ingest.sweep@{cut_off.id}"
    await db.execute(
        "INSERT INTO job_schedules VALUES ($1, 'ingest.sweep', $2, 3600, now())", tick, cut_off.id
    )
    await db.execute("SELECT job_enqueue('ingest.sweep', '', '{}', $1, $2)", tick, cut_off.id)
    image = await cut_off.yard.receive()
    await cut_off.silent()
    await stays.nodes.give_up(cut_off.id, 1)
    assert await stays.yard.jobs_left() == []
    assert await db.fetchval("SELECT name FROM job_schedules") == tick
    await cut_off.signs.tell()
    assert await stays.yard.status(image) is ImageStatus.FAILED
    await cut_off.sweep()
    assert await stays.yard.status(image) is ImageStatus.INGESTED


@pytest.mark.parametrize("after", ["upload", "delete", "upload and delete", "deleted before"])
async def test_what_came_after_it_wins(two: tuple[Machine, Machine], after: str) -> None:
    stays, gone = two
    await stays.bring((await stays.yard.receive("cat.jpg", b"old")).id)
    late = await gone.yard.receive("cat.jpg", b"late")
    if after == "deleted before":
        await stays.yard.delete()
    await gone.destroyed()
    await stays.nodes.give_up(gone.id, 1)
    if "upload" in after:
        await stays.bring((await stays.yard.receive("cat.jpg", b"new")).id)
    if after in {"delete", "upload and delete"}:
        await stays.yard.delete()
    again = await back(gone)
    await again.start()
    await again.bring(late.id)
    assert await stays.yard.status(late) is ImageStatus.STORED
    assert await stays.yard.content() == (b"new" if after == "upload" else None)
    assert (await stays.yard.history(f"image:{late.id}"))[-1]["type"] == "image_superseded"
    again.yard.directory.close()


@pytest.mark.parametrize("point", ["ingest.nodes.revive", "unit.close"])
async def test_a_return_cut_off_is_made_next_time(two: tuple[Machine, Machine], point: str) -> None:
    stays, gone = two
    images = await gone.destroyed(2)
    await stays.nodes.give_up(gone.id, 2)
    again = await back(gone)
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await again.start()
    assert armed.passes
    assert await became(stays, images) == {ImageStatus.FAILED}
    await again.start()
    await again.start()
    assert await became(stays, images) == {ImageStatus.INGESTED}
    assert await stays.yard.jobs_left() == ["ingest.offload", "ingest.offload"]
    again.yard.directory.close()


async def test_files_are_kept_for_as_long_as_it_takes(two: tuple[Machine, Machine]) -> None:
    """However old they are when it comes back."""
    stays, gone = two
    [image] = await gone.destroyed(1)
    await stays.nodes.give_up(gone.id, 1)
    again = await back(gone)
    again.yard.clock.ms = again.yard.clock.now_ms() + 90 * 86_400_000
    await again.start()
    assert Path(image.temp_path).exists()
    assert await stays.yard.status(image) is ImageStatus.INGESTED
    again.yard.directory.close()


async def test_a_server_on_a_moved_directory_has_taken_it_over(
    two: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """Without any command: a copy of the directory, on another machine."""
    stays, gone = two
    images = await gone.destroyed(3)
    shutil.copytree(gone.directory, tmp_path / "c" / "ingest")
    other = Machine(gone.yard.db, tmp_path / "c", tmp_path / "blobs")
    assert other.id != gone.id
    await other.start()
    await other.bring_all()
    assert await became(stays, images) == {ImageStatus.STORED}
    other.yard.directory.close()


@pytest.mark.parametrize("point", ["ingest.nodes.tell", "ingest.nodes.notice"])
async def test_a_sign_cut_off_is_given_the_next_time(
    two: tuple[Machine, Machine], point: str
) -> None:
    stays, gone = two
    await gone.destroyed(1)
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await stays.signs.tell()
    with capture_logs() as logs:
        await stays.signs.tell()
    assert [line["node"] for line in logs] == [gone.id]
