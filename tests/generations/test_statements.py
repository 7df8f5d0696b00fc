"""What the statements of generations find and touch: rows that differ in one thing."""

from collections.abc import Sequence

import pytest

from holding import waits
from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.lifecycle import Artifact
from safelight.infra.db import Database


async def active(
    db: Database,
    generation_id: str,
    *,
    tags: Sequence[str] = (),
    finished_at: int | None = None,
    organization: str = "acme",
) -> None:
    await db.execute(
        "INSERT INTO generations_inflight VALUES "
        "($1, $2, 'studio', 'image', 'm', '{}', 1, $3, 'active', 1, 9, NULL, $4)",
        generation_id,
        organization,
        list(tags),
        finished_at,
    )


async def task(db: Database, generation_id: str, artifact_id: str, status: str) -> None:
    position = await db.fetchval("SELECT count(*) FROM generation_tasks")
    await db.execute(
        "INSERT INTO generation_tasks (artifact_id, generation_id, position, status) "
        "VALUES ($1, $2, $3, $4)",
        artifact_id,
        generation_id,
        position,
        status,
    )


async def finished(db: Database, generation_id: str, status: str = "ready", at: int = 1) -> None:
    await db.execute(
        "INSERT INTO generations VALUES "
        "($1, 'acme', $2, 'studio', 'image', 'm', '{}', 1, 1, '[]', 1, 1, 9, $3)",
        generation_id,
        status,
        at,
    )


async def artifact(db: Database, artifact_id: str, generation_id: str = "g") -> None:
    async with db.transaction() as connection:
        made = Artifact(artifact_id, "acme", generation_id, "image/png", 1, "x", {}, 1, ())
        await library.add(connection, made)


async def tag(db: Database, name: str, kind: str, of: str) -> None:
    async with db.transaction() as connection:
        await library.put_tag(connection, "acme", kind, name, of)


async def all_tags(db: Database) -> set[tuple[str, str, str]]:
    rows = await db.fetch("SELECT tag, target_type, target_id FROM tags")
    return {(row["tag"], row["target_type"], row["target_id"]) for row in rows}


# In flight


async def test_a_page_in_flight(database: Database) -> None:
    """Without what is over; of one tag; from where the last one ended."""
    for name in ("a", "b", "c"):
        await active(database, name, tags=[f"of {name}"])
    await active(database, "over", finished_at=5)
    for wanted, before, found in (
        (None, None, ["c", "b", "a"]),
        ("of b", None, ["b"]),
        (None, (1, "b"), ["a"]),
    ):
        page = await repo.page(database, "acme", wanted, before, 9)
        assert [one.id for one in page] == found


async def test_an_artifact_is_under_way_in_its_organization_until_its_task_ends(
    database: Database,
) -> None:
    await active(database, "g")
    await task(database, "g", "made", "ready")
    await task(database, "g", "making", "streaming")
    assert await repo.is_under_way(database, "acme", "making")
    assert not await repo.is_under_way(database, "globex", "making")
    assert not await repo.is_under_way(database, "acme", "made")


async def test_wanted_is_what_has_a_row_or_may_get_one(database: Database) -> None:
    await active(database, "g")
    await artifact(database, "there")
    await task(database, "g", "coming", "submitted")
    await task(database, "g", "failed", "failed")
    await task(database, "g", "other", "submitted")
    asked = ["there", "coming", "failed", "never"]
    assert await repo.wanted(database, asked) == {"there", "coming"}


async def test_two_that_change_one_thing_wait(database: Database) -> None:
    await active(database, "g")
    await artifact(database, "a")
    assert await waits(database, lambda c: repo.lock(c, "g"), lambda c: repo.lock(c, "g"))
    assert await waits(database, lambda c: library.lock(c, "a"), lambda c: library.lock(c, "a"))


async def test_what_somebody_holds_is_purged_another_time(database: Database) -> None:
    await active(database, "held", finished_at=1)
    await active(database, "free", finished_at=1)
    assert not await waits(
        database, lambda c: repo.lock(c, "held"), lambda c: repo.purge(c, before=5, limit=9)
    )
    assert await repo.find(database, "held")
    assert await repo.find(database, "free") is None


# The library


@pytest.fixture
async def tagged(database: Database) -> Database:
    """Ids are never of two kinds; here they are, so that the kind decides."""
    for kind in ("artifact", "generation"):
        for name in ("red", "blue"):
            await tag(database, f"{name} {kind}", kind, "same")
    return database


async def test_tags_are_of_one_kind(tagged: Database) -> None:
    await artifact(tagged, "same")
    await finished(tagged, "same")
    found, done = await library.find(tagged, "same"), await library.find_finished(tagged, "same")
    assert found
    assert done
    assert found.tags == ("blue artifact", "red artifact")
    assert done.tags == ("blue generation", "red generation")


async def test_artifacts_by_tag(database: Database) -> None:
    """Their own, or their generation's, which has it as a row, or in flight while it is there."""
    for name in ("red", "blue"):
        await artifact(database, f"{name} itself")
        await tag(database, name, "artifact", f"{name} itself")
        await artifact(database, f"of {name}", generation_id=name)
        await tag(database, name, "generation", name)
        await artifact(database, f"of active {name}", generation_id=f"active {name}")
        await active(database, f"active {name}", tags=[name])
    await active(database, "over", tags=["red"], finished_at=1)
    await artifact(database, "untagged since", generation_id="over")
    await artifact(database, "no generation")
    await tag(database, "red", "generation", "no generation")
    await artifact(database, "of no artifact", generation_id="no artifact")
    await tag(database, "red", "artifact", "no artifact")
    page = await library.page(database, "acme", None, "red", None, 99)
    assert {one.id for one in page} == {"red itself", "of red", "of active red"}


async def test_artifacts_by_generation_and_from_where_the_last_page_ended(
    database: Database,
) -> None:
    for name, generation in (("a", "g"), ("b", "g"), ("c", "h")):
        await artifact(database, name, generation)
    page = await library.page(database, "acme", "g", None, None, 9)
    assert [one.id for one in page] == ["b", "a"]
    page = await library.page(database, "acme", None, None, (1, "c"), 9)
    assert [one.id for one in page] == ["b", "a"]


async def test_finished_ones(database: Database) -> None:
    """Of a state; of a tag, which is theirs; from where the last page ended."""
    for name, status in (("a", "ready"), ("b", "failed"), ("c", "ready")):
        await finished(database, name, status)
    await tag(database, "red", "generation", "a")
    await tag(database, "blue", "generation", "b")
    await tag(database, "red", "artifact", "c")
    for state, wanted, before, found in (
        ("ready", None, None, ["c", "a"]),
        (None, "red", None, ["a"]),
        (None, None, (1, "b"), ["a"]),
    ):
        page = await library.page_finished(database, "acme", state, wanted, before, 9)
        assert [one.id for one in page] == found


async def test_spending_is_of_a_time(database: Database) -> None:
    for at in (4, 5, 8, 9):
        await finished(database, f"at {at}", at=at)
    [studio] = await library.spending(database, "acme", 5, 9)
    assert (studio.generations, studio.artifacts, int(studio.cost)) == (2, 2, 2)
    assert await library.spending(database, "globex", 0, 99) == []


async def test_one_tag_is_removed_from_one_thing(database: Database) -> None:
    kept = {
        ("blue", "artifact", "a"),
        ("red", "generation", "a"),
        ("red", "artifact", "b"),
    }
    for name, kind, of in (*kept, ("red", "artifact", "a")):
        await tag(database, name, kind, of)
    async with database.transaction() as connection:
        await library.remove_tag(connection, "acme", "artifact", "red", "a")
    assert await all_tags(database) == kept


async def test_the_tags_of_one_thing_are_counted(tagged: Database) -> None:
    await tag(tagged, "red", "artifact", "other")
    async with tagged.transaction() as connection:
        assert await library.tag_count(connection, "artifact", "same") == 2


async def test_an_artifacts_own_tags_go_with_it(tagged: Database) -> None:
    await artifact(tagged, "same")
    async with tagged.transaction() as connection:
        assert await library.remove(connection, "same", 5)
    assert {kind for _, kind, _ in await all_tags(tagged)} == {"generation"}


async def test_counting_what_is_there(database: Database) -> None:
    for name, of in (("a", "g"), ("b", "g"), ("c", "h"), ("d", "i")):
        await artifact(database, name, of)
    found = await library.counts(database, ["g", "h", "none"])
    assert (found, found["none"]) == ({"g": 2, "h": 1}, 0)
