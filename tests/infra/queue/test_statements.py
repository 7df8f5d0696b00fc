"""What the statements of the queue touch and what they leave alone: rows that differ in one thing."""

from datetime import timedelta
from typing import Any

import pytest

from infra.queue.crew import WORK
from safelight.infra.db import Database
from safelight.infra.queue import repo
from safelight.infra.queue.jobs import Failure, Job

LEASE = timedelta(seconds=10)


async def put(db: Database, **columns: Any) -> int:
    """A job as it is given; one that runs is leased, one that is dead has died."""
    row: dict[str, Any] = {"kind": WORK.name, "status": "queued", **columns}
    row["owner"] = row.get("owner", "me") if row["status"] == "running" else None
    job_id: int = await db.fetchval(
        """
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, claim,
                          attempts, deaths, owner, lease, lease_until, died_at, created_at)
        VALUES ($1, $2, $3, '{"n": 1}', $4, 0, $5, now() + make_interval(secs => $6), 1, 1, $7, $8,
                interval '10 s', CASE WHEN $8::text IS NOT NULL THEN now() + interval '10 s' END,
                CASE WHEN $5 = 'dead' THEN now() END, now() - make_interval(secs => $9))
        RETURNING id
        """,
        row["kind"],
        row.get("organization", "acme"),
        row.get("node", ""),
        row.get("key"),
        row["status"],
        float(row.get("due_in", 0)),
        row.get("deaths", 0),
        row["owner"],
        float(row.get("age", 0)),
    )
    return job_id


async def statuses(db: Database) -> list[str]:
    return [row["status"] for row in await db.fetch("SELECT status FROM jobs ORDER BY id")]


async def loaded(db: Database, job_id: int) -> Job[Any]:
    row = await db.fetchrow("SELECT * FROM jobs WHERE id = $1", job_id)
    assert row
    return Job.load(WORK, row)


async def test_a_worker_gives_back_its_own(database: Database) -> None:
    for owner in ("me", "you"):
        await put(database, status="running", owner=owner)
    assert await repo.give_back(database, "me") == 1
    assert await statuses(database) == ["queued", "running"]


async def test_a_job_that_was_given_back_is_not_buried(database: Database) -> None:
    """Nobody has claimed it since, so its claim is still that of whoever had it."""
    job = await loaded(database, await put(database))
    async with database.transaction() as connection:
        assert not await repo.bury(connection, job, Failure("CODE", "words"))
    assert await statuses(database) == ["queued"]


@pytest.mark.parametrize(
    ("job", "count"),
    [({}, 1), ({"status": "dead"}, 0), ({"age": 3500}, 0), ({"node": "served"}, 0)],
)
async def test_stranded_is_what_waits_for_a_node_that_nobody_serves(
    database: Database, job: dict[str, Any], count: int
) -> None:
    await database.execute("INSERT INTO job_schedules VALUES ('s', 'k', 'served', 1, now())")
    await put(database, **{"node": "left", "age": 3700, **job})
    assert await repo.stranded(database) == ({"left": 1} if count else {})


async def test_letters_are_about_one_organization_and_kind(database: Database) -> None:
    about = await put(database, status="dead")
    await put(database, status="dead", organization="else")
    await put(database, status="dead", kind="test.else")
    found = await repo.letters_about(database, WORK.name, "acme", {"n": 1})
    assert [row["id"] for row in found] == [about]


@pytest.mark.parametrize("status", ["dead", "running"])
async def test_only_a_waiting_job_is_moved_to_another_time(database: Database, status: str) -> None:
    await put(database, status=status, key="k")
    assert await repo.reschedule(database, WORK.name, "k", None, 60) is None
    assert await statuses(database) == [status]
