"""What pages list of the library, by rows that differ in one thing."""

from decimal import Decimal

import pytest

from safelight.generations.artifacts import repo as library
from safelight.generations.artifacts.lists import repo as lists
from safelight.generations.lifecycle import Artifact, ProviderSpending
from safelight.infra.db import Database

DAY = 86_400_000


async def artifact(
    db: Database, artifact_id: str, at: int = 1, generation: str = "g", organization: str = "acme"
) -> None:
    made = Artifact(artifact_id, organization, generation, "image/png", 1, "x", {}, at)
    async with db.transaction() as connection:
        await library.add(connection, made)


async def tag(db: Database, name: str, kind: str, of: str, organization: str = "acme") -> None:
    async with db.transaction() as connection:
        await library.put_tag(connection, organization, kind, name, of)


async def finished(
    db: Database,
    generation: str,
    at: int = 1,
    *,
    provider: str = "studio",
    cost: float = 1,
    organization: str = "acme",
    prompt: str | None = None,
) -> None:
    await db.execute(
        "INSERT INTO generations (id, organization, status, provider, kind, model, input, count, "
        "artifact_count, tasks, cost, created_at, timeout_at, completed_at) "
        "VALUES ($1, $2, 'ready', $3, 'image', 'm', $4, 2, 2, '[]', $5, 1, 9, $6)",
        generation,
        organization,
        provider,
        {} if prompt is None else {"prompt": prompt},
        Decimal(str(cost)),
        at,
    )


async def test_artifacts_of_generations(database: Database) -> None:
    await artifact(database, "a", generation="g")
    await artifact(database, "b", generation="h")
    await artifact(database, "c", generation="i")
    await artifact(database, "d", generation="g", organization="else")
    await tag(database, "red", "artifact", "a")
    await tag(database, "blue", "generation", "a")
    found = await lists.of_generations(database, "acme", ["g", "h"])
    assert {one.id: one.tags for one in found} == {"a": ("red",), "b": ()}


@pytest.fixture
async def four(database: Database) -> Database:
    for at, (artifact_id, generation) in enumerate((("a", "g"), ("b", "h"), ("c", "g")), 1):
        await artifact(database, artifact_id, at, generation)
    await artifact(database, "d", 2, "h", "else")
    return database


async def newer(db: Database, generation: str | None, tag: str | None, at: int) -> str | None:
    found = await lists.newer(db, "acme", generation, tag, (at, "a" if at == 1 else "b"))
    return found.id if found else None


async def test_the_newer_one(four: Database) -> None:
    assert await newer(four, None, None, 1) == "b"
    assert await newer(four, None, None, 2) == "c"
    assert await newer(four, "g", None, 1) == "c"
    assert await newer(four, "h", None, 2) is None
    await tag(four, "red", "artifact", "c")
    await tag(four, "red", "generation", "h")
    await tag(four, "blue", "artifact", "b")
    await tag(four, "green", "generation", "b")
    await tag(four, "green", "artifact", "h")
    assert await newer(four, None, "red", 1) == "b"
    assert await newer(four, None, "red", 2) == "c"
    assert await newer(four, None, "blue", 2) is None
    assert await newer(four, None, "green", 1) is None, "of another kind"


async def test_prompts(database: Database) -> None:
    await finished(database, "g", prompt="hills")
    await finished(database, "h")
    await finished(database, "i", prompt="not asked for")
    await finished(database, "j", prompt="elsewhere", organization="else")
    for generation, over in (("k", None), ("g", 5)):
        await database.execute(
            "INSERT INTO generations_inflight VALUES ($1, 'acme', 'studio', 'image', 'm', $2, 1, "
            "'{}', 'active', 1, 9, NULL, $3)",
            generation, {"prompt": f"{generation} under way"}, over,
        )  # fmt: skip
    found = await lists.prompts(database, "acme", ["g", "h", "j", "k"])
    assert found == {"g": "hills", "k": "k under way"}


async def test_tags_in_use(four: Database) -> None:
    await tag(four, "red", "artifact", "a")
    await tag(four, "red", "generation", "g")  # a and c
    await tag(four, "blue", "artifact", "b")
    await tag(four, "green", "generation", "nothing came of it")
    await tag(four, "theirs", "artifact", "d", "else")
    assert await lists.tags_in_use(four, "acme", 9) == {"red": 2, "blue": 1}
    assert list(await lists.tags_in_use(four, "acme", 1)) == ["red"]


async def test_spending_by_day(database: Database) -> None:
    await finished(database, "g", DAY, provider="runware", cost=0.5)
    await finished(database, "h", 2 * DAY - 1, provider="runware", cost=0.25)
    await finished(database, "i", 2 * DAY - 1)
    await finished(database, "j", 2 * DAY)
    await finished(database, "early", DAY - 1)
    await finished(database, "late", 3 * DAY)
    await finished(database, "theirs", DAY, organization="else")
    assert await lists.spending_by_day(database, "acme", DAY, 3 * DAY) == {
        DAY: [
            ProviderSpending("runware", 2, 4, Decimal("0.75")),
            ProviderSpending("studio", 1, 2, Decimal(1)),
        ],
        2 * DAY: [ProviderSpending("studio", 1, 2, Decimal(1))],
    }
