"""A directory that came from another machine is taken over in one command: whole, killed anywhere, and
never that of somebody else."""

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest.adopting import adopt
from ingest.machines import Machine
from nursery import bear
from safelight.errors import ConfigurationError
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.identity import DEED, claim, identity_of
from safelight.infra.injected import RandomIds
from safelight.ingest import repo
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.nodes.give_up import NodeAlive

UPLOADS = 50


@pytest.fixture
async def stays(database: Database, tmp_path: Path) -> AsyncIterator[Machine]:
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    machine = Machine(database, tmp_path / "a", tmp_path / "blobs")
    await machine.start()
    yield machine
    machine.yard.directory.close()


async def lost_machine(stays: Machine, uploads: int) -> tuple[Machine, list[Image]]:
    """With its directory, which says whose it is."""
    root = stays.directory.parents[1]
    machine = Machine(stays.yard.db, root / "b", root / "blobs")
    identity = await identity_of(stays.yard.db)
    claim(machine.directory, identity, RandomIds(), what="It", database="postgresql:///x")
    await machine.start()
    return machine, await machine.destroyed(uploads)


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    return tmp_path / "moved"


async def take(stays: Machine, directory: Path, node: str | None = None) -> tuple[int, int]:
    """How many it took over, and how many still wait."""
    adopted = await adopt(stays.yard.db.url, str(directory), str(stays.directory), node)
    assert adopted.damaged == []
    return adopted.taken, adopted.left


async def all_stored(stays: Machine, images: list[Image]) -> None:
    await stays.bring_all()
    found = await repo.statuses(stays.yard.db, [image.id for image in images])
    assert set(found.values()) == {ImageStatus.STORED}
    for image in images:
        assert await stays.yard.content(image.name) == image.name.partition(".")[0].encode()


async def test_adopted_from_a_copy_in_one_step(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, UPLOADS)
    shutil.copytree(gone.directory, moved)
    shutil.rmtree(gone.directory)
    before = sorted(path.name for path in moved.iterdir())
    assert await take(stays, moved) == (UPLOADS, 0)
    assert sorted(path.name for path in moved.iterdir()) == before
    assert await stays.seen(gone.id) is None
    await all_stored(stays, images)
    assert await take(stays, moved) == (0, 0)


async def test_adopted_after_it_was_given_up(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, 3)
    shutil.copytree(gone.directory, moved)
    await stays.nodes.give_up(gone.id, 3)
    assert await take(stays, moved) == (3, 0)
    await all_stored(stays, images)


async def test_what_is_not_there_still_waits(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, 3)
    shutil.copytree(gone.directory, moved)
    (moved / Path(images[0].temp_path).name).unlink()
    assert await take(stays, moved) == (2, 1)
    assert await stays.seen(gone.id)
    await all_stored(stays, images[1:])
    assert await stays.yard.status(images[0]) is ImageStatus.INGESTED


async def test_a_damaged_file_is_left_alone_and_named(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, 2)
    shutil.copytree(gone.directory, moved)
    damaged = moved / Path(images[0].temp_path).name
    damaged.write_bytes(b"?")
    adopted = await adopt(stays.yard.db.url, str(moved), str(stays.directory))
    assert (adopted.taken, adopted.damaged, adopted.left) == (1, [damaged], 1)
    assert not (stays.directory / damaged.name).exists()
    assert not list(stays.directory.glob(".img_*"))
    await all_stored(stays, images[1:])


async def test_a_dead_letter_comes_along(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, 1)
    await stays.yard.db.execute("UPDATE jobs SET status = 'dead', died_at = now()")
    shutil.copytree(gone.directory, moved)
    assert await take(stays, moved) == (1, 0)
    assert await stays.yard.db.fetchval("SELECT node FROM jobs") == stays.id
    assert await stays.yard.status(images[0]) is ImageStatus.INGESTED


async def test_a_copy_without_hidden_files_needs_a_name(stays: Machine, moved: Path) -> None:
    gone, images = await lost_machine(stays, 2)
    shutil.copytree(gone.directory, moved, ignore=shutil.ignore_patterns(".*"))
    with pytest.raises(ConfigurationError, match=r"does not say which database.*--node"):
        await take(stays, moved)
    assert await take(stays, moved, gone.id) == (2, 0)
    await all_stored(stays, images)


async def test_what_is_refused(stays: Machine, moved: Path) -> None:
    gone, _ = await lost_machine(stays, 1)
    shutil.copytree(gone.directory, moved)
    with pytest.raises(ConfigurationError, match="There is no directory"):
        await take(stays, moved / "nowhere")
    with pytest.raises(ConfigurationError, match="is the ingest directory here"):
        await take(stays, stays.directory)
    with (moved / ".lock").open("r+") as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        with pytest.raises(ConfigurationError, match="is using"):
            await take(stays, moved)
    await gone.signs.tell()
    with pytest.raises(NodeAlive):
        await take(stays, moved)
    await gone.silent()
    (moved / DEED).write_text("db_other place_x\nthe database at elsewhere/x\n")
    with pytest.raises(ConfigurationError, match="belongs to another database: to db_other"):
        await take(stays, moved)
    assert await stays.yard.jobs_left() == ["ingest.offload"]
    assert not list(stays.directory.glob("*img_*"))


@pytest.mark.parametrize(
    ("point", "given_up"),
    [
        ("ingest.adopt_clear=exit@2", False),
        ("files.write=exit@2", False),
        ("files.fsync_draft=exit", False),
        ("ingest.adopt_rename=exit", False),
        ("ingest.adopt_rename=exit@2", False),
        ("ingest.adopt_sync=exit", False),
        ("queue.adopt=exit", False),
        ("ingest.nodes.revive=exit", True),
        ("ingest.nodes.forget=exit", False),
    ],
)
async def test_killed_anywhere(stays: Machine, moved: Path, point: str, given_up: bool) -> None:
    gone, images = await lost_machine(stays, 3)
    shutil.copytree(gone.directory, moved)
    if given_up:
        await stays.nodes.give_up(gone.id, 3)
    child = bear(
        "ingest.adopting:adopt", stays.yard.db.url, str(moved), str(stays.directory), points=point
    )
    assert await asyncio.to_thread(child.wait) == EXIT_CODE
    for file in stays.directory.glob("img_*"):
        assert file.read_bytes() == (moved / file.name).read_bytes()
    await take(stays, moved)
    assert not list(stays.directory.glob(".img_*"))
    assert await stays.seen(gone.id) is None
    await all_stored(stays, images)
