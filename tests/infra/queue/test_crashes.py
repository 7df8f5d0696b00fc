"""Workers in processes of their own, killed without a word."""

from collections.abc import AsyncIterator, Callable

import pytest

from infra.queue.crew import (
    Labourer,
    add_many,
    note_effects,
    rows,
)
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.queue.jobs import DEATHS
from safelight.testing.waiting import until

pytestmark = pytest.mark.process

Hire = Callable[..., Labourer]


@pytest.fixture
async def hire(database: Database) -> AsyncIterator[Hire]:
    await note_effects(database)
    hired: list[Labourer] = []

    def begin(behaviour: str, lease: float = 1.0) -> Labourer:
        hired.append(Labourer.hire(database.url, behaviour, lease, f"labourer-{len(hired)}"))
        return hired[-1]

    yield begin
    for labourer in hired:
        labourer.kill()


async def how_many(database: Database, what: str) -> int:
    found: int = await database.fetchval(f"SELECT count(*) FROM {what}")
    return found


async def reaches(database: Database, what: str, number: int) -> bool:
    return await how_many(database, what) >= number


HOUR = 3600.0  # a lease that nobody waits for


async def test_two_hundred_jobs_of_a_killed_worker_are_taken_over_at_once(
    database: Database, hire: Hire
) -> None:
    await add_many(database, 200)
    holder = hire("hold", lease=HOUR)
    await until(lambda: reaches(database, "starts", 200))
    hire("work", lease=HOUR)
    await until(lambda: reaches(database, "ready", 2))
    assert await how_many(database, "effects") == 0, "a living worker's job was taken"
    holder.kill()
    await until(lambda: reaches(database, "effects", 200))
    assert await how_many(database, "(SELECT DISTINCT job FROM effects WHERE deaths = 1) e") == 200
    assert await how_many(database, "jobs WHERE kind = 'test.work'") == 0


async def test_one_that_is_started_after_a_kill_takes_over_at_once(
    database: Database, hire: Hire
) -> None:
    await add_many(database, 20)
    holder = hire("hold", lease=HOUR)
    await until(lambda: reaches(database, "starts", 20))
    holder.kill()
    hire("work", lease=HOUR)
    await until(lambda: reaches(database, "effects", 20))


async def test_a_worker_that_holds_no_presence_is_known_by_its_leases(
    database: Database, hire: Hire
) -> None:
    """As one of the version before is."""
    await add_many(database, 20)
    holder = hire("hold", lease=1.5)
    await until(lambda: reaches(database, "starts", 20))
    await database.execute("DELETE FROM job_workers")
    hire("work", lease=1.5)
    await until(lambda: reaches(database, "ready", 2))
    holder.kill()
    await until(lambda: reaches(database, "effects", 20))


async def test_five_crashes_in_a_row_bury_nobody(database: Database, hire: Hire) -> None:
    await add_many(database, 16)
    in_flight = [16, 32, 33, 34, 35]  # from the third on, suspects are run one at a time
    for started in in_flight:
        victim = hire("hold", lease=HOUR)
        await until(lambda started=started: hurried(database, started))  # type: ignore[misc]
        victim.kill()
    hire("work", lease=HOUR)
    await until(lambda: ended(database, 16))
    assert await how_many(database, "jobs WHERE status = 'dead'") == 0


async def hurried(database: Database, started: int) -> bool:
    """Whether so many have started; what was put off for a while is due at once."""
    await database.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
    return await reaches(database, "starts", started)


async def ended(database: Database, number: int) -> bool:
    await database.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
    return await reaches(database, "effects", number)


async def test_a_job_that_kills_its_process_is_buried_alone(database: Database, hire: Hire) -> None:
    await add_many(database, 9)
    for _ in range(DEATHS):
        victim = hire("poisoned", lease=HOUR)
        await until(lambda victim=victim: over(database, victim))  # type: ignore[misc]
        assert victim.process.returncode == -9
    survivor = hire("poisoned", lease=HOUR)
    await until(lambda: buried(database))
    assert survivor.process.poll() is None
    [row] = [row for row in await rows(database) if row["status"] == "dead"]
    assert (row["payload"], row["attempts"]) == ({"n": 1}, DEATHS)
    assert row["error"]["code"] == "WORKER_DIED"
    assert await how_many(database, "effects") == 8


async def over(database: Database, victim: Labourer) -> bool:
    await database.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
    return victim.process.poll() is not None


async def buried(database: Database) -> bool:
    await database.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
    return bool(await how_many(database, "jobs WHERE status = 'dead'"))


async def test_two_processes_share_one_backlog(database: Database, hire: Hire) -> None:
    hire("work")
    hire("work")
    await until(lambda: reaches(database, "ready", 2))
    foreman = Bus(database, "foreman")
    for _ in range(20):
        await add_many(database, 60)
        foreman.announce("jobs", "test.work")
    await until(lambda: drained(database))
    assert await how_many(database, "effects") == 1200
    assert await how_many(database, "(SELECT DISTINCT job FROM effects) AS once") == 1200
    assert await how_many(database, "(SELECT DISTINCT owner FROM effects) AS workers") == 2


async def drained(database: Database) -> bool:
    return await how_many(database, "jobs WHERE kind = 'test.work'") == 0


async def test_a_schedule_on_three_processes_fires_once_per_tick(
    database: Database, hire: Hire
) -> None:
    for _ in range(3):
        hire("work")

    await until(lambda: reaches(database, "ticks", 4))
    seconds = await database.fetch("SELECT floor(extract(epoch FROM fired)) AS second FROM ticks")
    fired = [int(row["second"]) for row in seconds]
    assert len(set(fired)) == len(fired)
