"""Free names: found in one query, taken one after the other, and nobody else waits for it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import picture
from ingest.offloading import Yard
from inprocess import Application, application
from safelight.infra.db import Database
from safelight.ingest import repo
from safelight.ingest.lifecycle import ImageStatus, Recording
from safelight.testing.waiting import until


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    made = Yard(database, tmp_path)
    yield made
    await made.close()


async def free(yard: Yard, name: str) -> str | None:
    return await repo.free_name(yard.db, "acme", name, numbered=True)


async def take(yard: Yard, *names: str) -> None:
    """As uploads that are on their way, many at once."""
    image = await yard.receive("pattern")
    await yard.db.execute(
        "INSERT INTO images SELECT (jsonb_populate_record(i, jsonb_build_object("
        "'id', 'img_' || n, 'name', taken))).* FROM images i, unnest($2::text[]) WITH ORDINALITY t(taken, n) "
        "WHERE i.id = $1",
        image.id,
        list(names),
    )


async def test_the_smallest_number_that_is_free(yard: Yard) -> None:
    assert await free(yard, "a.jpg") == "a.jpg"
    await take(yard, "a.jpg", "a (2).jpg", "a (4).jpg")
    assert await free(yard, "a.jpg") == "a (3).jpg"
    assert await free(yard, "b.jpg") == "b.jpg"


async def test_a_name_that_has_to_be_as_it_is(yard: Yard) -> None:
    await take(yard, "a.jpg")
    assert await repo.free_name(yard.db, "acme", "a.jpg", numbered=False) is None
    assert await repo.free_name(yard.db, "globex", "a.jpg", numbered=False) == "a.jpg"


@pytest.mark.parametrize("taken", [15, 16, 17, 31, 32, 33, 100, 3000])
async def test_after_any_number_of_others(yard: Yard, taken: int) -> None:
    await take(yard, "a.jpg", *(f"a ({n}).jpg" for n in range(2, taken + 1)))
    assert await free(yard, "a.jpg") == f"a ({taken + 1}).jpg"


async def test_a_long_name_gives_way_to_its_number(yard: Yard) -> None:
    name = "e" * 251 + ".jpg"
    cut = [name, *("e" * (251 - len(f" ({n})")) + f" ({n}).jpg" for n in range(2, 12))]
    await take(yard, *cut[:-1])
    assert await free(yard, name) == cut[-1]


async def test_whoever_comes_while_another_chooses_is_told_at_once(yard: Yard) -> None:
    image = await yard.receive("a.jpg")
    other = await yard.receive("pattern")
    await yard.db.execute("DELETE FROM images WHERE id = $1", other.id)

    async def record(name: str) -> Recording:
        async with yard.db.connection() as connection:
            wanted = replace(other, name=name)
            return (await repo.record_upload_unless_taken(connection, wanted, "node", []))[0]

    async with yard.db.transaction() as holding:
        await holding.execute("SELECT names_lock('acme')")
        assert await record("b.jpg") is Recording.BUSY
        assert await repo.find(yard.db, other.id) is None
    assert await record(image.name) is Recording.TAKEN
    assert await record("b.jpg") is Recording.RECORDED
    assert await yard.status(other) is ImageStatus.INGESTED


UPLOADS = 12  # more than the pool has connections


async def test_waiting_for_a_name_is_nobody_elses_business(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lock held, every upload of one organization waits; whoever only reads does not."""
    monkeypatch.setattr("safelight.ingest.accept._NAME_SECONDS", 300)  # none gives up meanwhile
    async with application(database_url, tmp_path) as app, app.client() as client:
        control = await client.get("/api/organizations/default/uploads")
        async with app.db.transaction() as holding:
            await holding.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await holding.execute("SELECT names_lock('default')")
            uploads = [asyncio.create_task(send(app)) for _ in range(UPLOADS)]
            await until(lambda: len(list((tmp_path / "ingest").glob("img_*"))) == UPLOADS)
            answers = [await client.get("/api/organizations/default/uploads") for _ in range(5)]
            assert not any(upload.done() for upload in uploads), "they did not wait"
        assert {answer.text for answer in answers} == {control.text}
        assert [await upload for upload in uploads] == [201] * UPLOADS
        names = {row["name"] for row in await app.db.fetch("SELECT name FROM images")}
    assert names == {"a.png", *(f"a ({n}).png" for n in range(2, UPLOADS + 1))}


async def send(app: Application) -> int:
    async with app.client() as client:
        files = {"file": ("a.png", picture("PNG"))}
        answer = await client.post("/api/upload?onConflict=rename", files=files)
    return answer.status_code
