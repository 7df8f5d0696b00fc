"""Jobs that were there when workers died: they run one at a time, until it is known which one it was."""

import asyncio
from datetime import timedelta

from infra.queue.crew import WORK, Number, Starts, add_many, crew, nothing_left, rows
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.jobs import DEATHS, Done, Job, JobId, Verdict
from safelight.testing.waiting import until

HOUR = timedelta(hours=1)


async def suspect(db: Database, deaths: int, error: dict[str, str] | None = None) -> None:
    """As workers that died have left them."""
    await db.execute(
        "UPDATE jobs SET status = 'delayed', run_at = now(), deaths = $1, error = $2", deaths, error
    )


async def test_suspects_run_one_at_a_time_beside_others(database: Database) -> None:
    together: list[int] = []
    running: set[int] = set()
    over = asyncio.Event()

    async def look_around(job: Job[Number]) -> Verdict:
        if not job.suspect:
            await over.wait()
            return Done()
        running.add(job.payload.n)
        together.append(len(running))
        await asyncio.sleep(0)
        running.discard(job.payload.n)
        return Done()

    await add_many(database, 8)
    await suspect(database, 2)
    async with crew(database, look_around, quiet=0) as team:
        await team.add_many(3)
        await until(lambda: len(together) == 8)
        over.set()
        await until(lambda: nothing_left(database))
    assert set(together) == {1}


async def test_none_in_a_processs_first_seconds(database: Database) -> None:
    """One that dies at its start, again and again, is to blame itself."""
    await add_many(database, 4)
    await suspect(database, DEATHS - 1)
    starts = Starts()
    tend = failpoints.observe("queue.tend")
    async with crew(database, starts, quiet=3600) as team:
        await team.add(9)
        for looks in range(2, 6):
            team.queue.wake()
            await tend.passed(looks)
        await until(lambda: starts.seen)
    assert starts.numbers == [9]
    assert {row["deaths"] for row in await rows(database)} == {DEATHS - 1}


async def test_too_many_deaths_bury_it_with_its_last_words(database: Database) -> None:
    await add_many(database, 1)
    await suspect(database, DEATHS, {"code": "STORE_AWAY", "message": "The bucket is away."})
    starts = Starts()
    async with crew(database, starts, quiet=0) as team:
        [letter] = await until(team.queue.dead_letters.page)
        assert letter.error["code"] == "WORKER_DIED"
        assert "STORE_AWAY: The bucket is away." in letter.error["message"]
        assert letter.attempts == DEATHS
        assert starts.seen == []
        await team.queue.dead_letters.redrive(letter.id)
        await until(lambda: nothing_left(database))
    assert [(job.attempt, job.deaths) for _, _, job in starts.seen] == [(1, 0)]


async def test_the_last_real_error_outlives_a_death(database: Database) -> None:
    await add_many(database, 2)
    await claim(database, "victim")
    failed = {"code": "X", "message": "y"}
    await database.execute("UPDATE jobs SET error = $1 WHERE payload ->> 'n' = '1'", failed)
    await database.execute("UPDATE jobs SET lease_until = now()")
    await queue_repo.tend(database, ["test.work"], "here", [])
    first, second = await rows(database)
    assert first["error"] == failed
    assert second["error"]["code"] == "WORKER_DIED"
    assert {(row["attempts"], row["deaths"]) for row in (first, second)} == {(0, 1)}


async def test_a_suspect_waits_longer_each_time(database: Database) -> None:
    await add_many(database, 1)
    waits = []
    for deaths in range(1, DEATHS + 1):
        await database.execute("UPDATE jobs SET run_at = now()")
        await claim(database, "victim") or await claim_suspect(database)
        await database.execute("UPDATE jobs SET lease_until = now()")
        await queue_repo.tend(database, ["test.work"], "here", [])
        [row] = await rows(database)
        assert row["deaths"] == deaths
        waits.append(round((row["run_at"] - row["delayed_at"]).total_seconds()))
    assert waits[1:] == [1, 2, 4, 8]
    assert waits[0] == 0


async def test_an_attempt_that_ends_in_words_was_no_death(database: Database) -> None:
    async def fail_once(job: Job[Number]) -> Verdict:
        if job.deaths == 2:
            raise ValueError("words")
        return Done()

    await add_many(database, 1)
    await suspect(database, 2)
    starts = Starts(fail_once)
    async with crew(database, starts, quiet=0):
        await until(lambda: nothing_left(database))
    assert [(job.attempt, job.deaths) for _, _, job in starts.seen] == [(1, 2), (2, 1)]


async def test_what_a_worker_lost_sight_of_itself_is_no_death(database: Database) -> None:
    """The answer to its claim never came: the lease ends under its own eyes."""
    await add_many(database, 1)
    starts = Starts()
    async with crew(database, starts) as team:
        await until(lambda: starts.seen)
        await until(lambda: nothing_left(database))
        await add_many(database, 1)
        await claim(database, team.queue.owner)
        await database.execute("UPDATE jobs SET lease_until = now()")
        team.queue.wake()
        await until(lambda: nothing_left(database))
    assert [(job.attempt, job.deaths) for _, _, job in starts.seen] == [(1, 0), (1, 0)]


async def claim(db: Database, owner: str) -> list[JobId]:
    openings = [("test.work", WORK.limit, "")]
    rows = await queue_repo.claim(db, openings, "here", owner, HOUR)
    return [row["id"] for row in rows]


async def claim_suspect(db: Database) -> list[JobId]:
    rows = await queue_repo.claim_suspect(db, ["test.work"], "here", "victim", HOUR)
    return [row["id"] for row in rows]
