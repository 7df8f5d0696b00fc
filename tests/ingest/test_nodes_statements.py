"""The statements about nodes, with rows that differ in one condition."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holding import until_waiting
from ingest.offloading import Yard
from safelight.infra.db import Database
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.nodes import repo

NOW = 1_800_000_000_000


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    made = Yard(database, tmp_path)
    yield made
    await made.close()


async def become(yard: Yard, image: Image, status: str, node: str | None) -> None:
    await yard.db.execute(
        "UPDATE images SET status = $2, node = $3 WHERE id = $1", image.id, status, node
    )


async def tell(yard: Yard, node: str = "n", seconds: int = 0) -> None:
    await repo.tell(yard.db, node, "host", "/dir", "1", answers=True, works=False)
    await yard.db.execute(
        "UPDATE nodes SET answered = now() - make_interval(secs => $2) WHERE id = $1", node, seconds
    )


async def test_what_was_stored_meanwhile_is_not_lost(yard: Yard) -> None:
    lost, stored = await yard.receive("a.jpg"), await yard.receive("b.jpg")
    await become(yard, stored, "STORED", None)
    async with yard.db.transaction() as connection:
        found = await repo.lose(connection, yard.directory.node, "acme", 9, NOW)
    assert found == [(lost.id, "a.jpg")]
    assert await yard.status(stored) is ImageStatus.STORED
    assert await yard.jobs_left() == []


async def test_only_what_was_given_up_comes_back(yard: Yard) -> None:
    images = [await yard.receive(f"{n}.jpg") for n in range(4)]
    await yard.db.execute("DELETE FROM jobs")
    for image, status, node in zip(
        images, ("FAILED", "FAILED", "STORED", "INGESTED"), ("n", None, "n", "n"), strict=True
    ):
        await become(yard, image, status, node)
    ids = [image.id for image in images]
    assert await repo.given_up(yard.db, ids) == {"acme": ids[:1]}
    assert [image.id for image in await repo.with_file(yard.db, ids)] == sorted([ids[0], ids[3]])
    async with yard.db.transaction() as connection:
        back = await repo.revive(connection, "acme", ids, "here", NOW)
    assert [image.id for image in back] == ids[:1]
    assert [await yard.status(image) for image in images[1:3]] == ["FAILED", "STORED"]
    jobs = await yard.db.fetch("SELECT key, node FROM jobs")
    assert [tuple(row) for row in jobs] == [(ids[0], "here")]


@pytest.mark.parametrize(("silent", "waits", "gone"), [(60, 0, 1), (10, 0, 0), (60, 1, 0)])
async def test_who_is_forgotten_and_who_is_noticed(
    yard: Yard, silent: int, waits: int, gone: int
) -> None:
    await tell(yard, seconds=silent)
    for at in range(waits):
        await yard.receive(f"{at}.jpg")
    await yard.db.execute("UPDATE jobs SET node = 'n'")
    assert await repo.notice(yard.db) == (["n"] if silent == 60 and waits else [])
    assert await repo.notice(yard.db) == []
    await repo.forget(yard.db, "other")
    await repo.forget(yard.db, "n")
    assert len([node for node in await repo.nodes(yard.db) if node.host]) == 1 - gone


async def test_it_is_noticed_again_after_it_was_back(yard: Yard) -> None:
    await yard.receive()
    await yard.db.execute("UPDATE jobs SET node = 'n'")
    for _ in range(2):
        await tell(yard, seconds=60)
        assert await repo.notice(yard.db) == ["n"]


async def test_one_that_is_held_cannot_tell_of_itself(yard: Yard) -> None:
    await tell(yard)
    async with yard.db.transaction() as connection:
        await repo.hold(connection, "n")
        telling = asyncio.create_task(
            repo.tell(yard.db, "n", "host", "/dir", "1", answers=True, works=False)
        )
        await until_waiting(yard.db, 1)
    await telling
