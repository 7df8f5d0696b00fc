"""Jobs that gave up, and the people who decide about them."""

import asyncio
from typing import Any

import pytest

from infra.queue.crew import (
    Number,
    Starts,
    a_kind,
    a_queue,
    crew,
    nothing_left,
    rows,
)
from safelight.errors import Conflict, NotFound
from safelight.infra import activity
from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.dead_letters import NotDead, TwinAlive
from safelight.infra.queue.jobs import Backoff, Dead, DeadLetter, Done, Failure, Job, Verdict
from safelight.testing.waiting import until

KIND = a_kind(retry=Backoff(attempts=2, first=0.02), subject=lambda payload: f"image:{payload.n}")
ACTOR = {"type": "user", "name": "ann"}


class Broken(Conflict):
    """It is broken."""

    code = "BROKEN"


async def die(_: Job[Number]) -> Verdict:
    return Dead(Failure("HOPELESS", "It will never work."))


async def dead(db: Database, *numbers: int, organization: str | None = "acme") -> list[DeadLetter]:
    """Leaves dead letters behind, in this order of death."""
    async with crew(db, die, kind=KIND) as team:
        for number in numbers:
            before = len(await team.queue.dead_letters.page(limit=1000))
            await team.add(number, KIND, organization=organization)
            await until(lambda known=before: more_than(team.queue.dead_letters, known))  # type: ignore[misc]
        return await team.queue.dead_letters.page(limit=1000)


async def more_than(letters: Any, known: int) -> bool:
    return len(await letters.page(limit=1000)) > known


async def history(db: Database, subject: str, organization: str = "acme") -> list[dict[str, Any]]:
    told = await activity.of_subject(db, organization, subject, after=0, limit=50)
    return [{"type": line.type, **line.data} for line in told]


async def test_a_job_that_keeps_failing_dies_with_its_last_error(database: Database) -> None:
    async def fail(job: Job[Number]) -> Verdict:
        raise Broken(f"Try {job.attempt}.")

    async with crew(database, fail, kind=KIND) as team:
        job = await team.add(7, KIND)
        [letter] = await until(team.queue.dead_letters.page)
    assert (letter.id, letter.kind, letter.organization) == (job, "test.work", "acme")
    assert letter.error == {"code": "BROKEN", "message": "Try 2."}
    assert (letter.attempts, letter.payload, letter.subject) == (2, {"n": 7}, "image:7")
    assert letter.first_at <= letter.died_at
    assert await history(database, "image:7") == [
        {"type": "job_dead", "jobId": job, "kind": "test.work", "attempt": 2, "error": letter.error}
    ]


async def test_an_unexpected_error_is_named_after_its_class(database: Database) -> None:
    async def fail(_: Job[Number]) -> Verdict:
        raise KeyError("x" * 9999)

    async with crew(database, fail, kind=KIND) as team:
        await team.add(1, KIND)
        [letter] = await until(team.queue.dead_letters.page)
    assert letter.error["code"] == "KeyError"
    assert len(letter.error["message"]) == 2000


async def test_an_error_the_database_cannot_hold_is_kept_in_a_way_it_can(
    database: Database,
) -> None:
    async def fail(_: Job[Number]) -> Verdict:
        raise ValueError("NUL \0 and a lone surrogate \udcff")

    async with crew(database, fail, kind=KIND) as team:
        await team.add(1, KIND)
        [letter] = await until(team.queue.dead_letters.page)
    assert letter.error["message"] == "NUL \\0 and a lone surrogate \\udcff"


async def test_an_end_that_cannot_be_written_holds_up_nobody(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> set[int]:
        raise RuntimeError("a bug of ours")

    async def fail_or_not(job: Job[Number]) -> Verdict:
        return Done() if job.payload.n else Dead(Failure("X", "y"))

    async with crew(database, fail_or_not, kind=KIND) as team:
        monkeypatch.setattr(queue_repo, "finish", refuse)
        await team.add(1, KIND)
        await team.add(0, KIND)
        await until(team.queue.dead_letters.page)
        assert [row["error"]["code"] for row in await until(lambda: put_back(database))] == [
            "END_UNWRITTEN"
        ]
        monkeypatch.undo()
        await database.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
        team.queue.wake()
        await until(lambda: only_dead(database))


async def only_dead(db: Database) -> bool:
    return {row["status"] for row in await rows(db)} == {"dead"}


async def test_the_systems_own_jobs_die_outside_any_history(database: Database) -> None:
    [letter] = await dead(database, 1, organization=None)
    assert letter.organization is None
    assert await database.fetchval("SELECT count(*) FROM activity") == 0


async def test_pages_run_backwards_in_time_and_filters_narrow_them(database: Database) -> None:
    await dead(database, 1, 2, 3)
    await dead(database, 4, organization="other")
    letters = a_queue(database, [KIND]).dead_letters
    first = await letters.page(limit=2)
    assert [letter.payload["n"] for letter in first] == [4, 3, 2]
    second = await letters.page(limit=2, before=first[1].cursor)
    assert [letter.payload["n"] for letter in second] == [2, 1]
    assert [letter.payload["n"] for letter in await letters.page(organization="other")] == [4]
    assert await letters.page(kind="no.such") == []


async def test_redrive_keeps_the_id_and_twice_is_a_conflict(database: Database) -> None:
    [letter] = await dead(database, 1)
    letters = a_queue(database, [KIND]).dead_letters
    await letters.redrive(letter.id, actor=ACTOR)
    [row] = await rows(database)
    assert (row["id"], row["status"], row["attempts"]) == (letter.id, "queued", 0)
    with pytest.raises(NotDead):
        await letters.redrive(letter.id)
    with pytest.raises(NotDead):
        await letters.discard(letter.id)
    [_, redriven] = await history(database, "image:1")
    assert (redriven["type"], redriven["actor"]) == ("job_redriven", ACTOR)


async def test_redriving_again_after_the_end_is_still_a_conflict(database: Database) -> None:
    [letter] = await dead(database, 1)
    async with crew(database, kind=KIND) as team:
        letters = team.queue.dead_letters
        await letters.redrive(letter.id, organization="acme")
        await until(lambda: nothing_left(database))
        with pytest.raises(NotDead):
            await letters.redrive(letter.id)
        with pytest.raises(NotDead):
            await letters.redrive(letter.id, organization="acme")
        with pytest.raises(NotFound):
            await letters.redrive(letter.id, organization="other")


async def test_a_redriven_job_may_die_again_and_be_redriven_again(database: Database) -> None:
    [letter] = await dead(database, 1)
    async with crew(database, die, kind=KIND) as team:
        letters = team.queue.dead_letters
        await letters.redrive(letter.id)
        await until(letters.page)
        await letters.redrive(letter.id)
        await until(letters.page)


async def test_discard_is_for_good(database: Database) -> None:
    [letter] = await dead(database, 1)
    letters = a_queue(database, [KIND]).dead_letters
    await letters.discard(letter.id, actor=ACTOR)
    assert await nothing_left(database)
    for verb in (letters.discard, letters.redrive):
        with pytest.raises(NotFound):
            await verb(letter.id)
    assert [line["type"] for line in await history(database, "image:1")] == [
        "job_dead",
        "job_discarded",
    ]


async def test_an_id_that_never_was_is_not_found(database: Database) -> None:
    letters = a_queue(database).dead_letters
    for job in (0, -1, 12345, 2**63 - 1, 2**63, 10**40):
        with pytest.raises(NotFound):
            await letters.redrive(job)
        with pytest.raises(NotFound):
            await letters.discard(job, organization="acme")


async def test_another_tenants_dead_letter_does_not_exist(database: Database) -> None:
    [letter] = await dead(database, 1)
    letters = a_queue(database, [KIND]).dead_letters
    for verb in (letters.redrive, letters.discard):
        with pytest.raises(NotFound):
            await verb(letter.id, organization="other")
    assert await letters.page(organization="other") == []
    assert [row["status"] for row in await rows(database)] == ["dead"]


async def test_a_dead_letter_waits_while_its_key_lives_again(database: Database) -> None:
    async with crew(database, die, kind=KIND) as team:
        job = await team.add(1, KIND, key="k")
        assert job
        await until(team.queue.dead_letters.page)
        await team.worker.stop()
        assert await team.add(2, KIND, key="k")
        with pytest.raises(TwinAlive):
            await team.queue.dead_letters.redrive(job)
        assert await team.queue.cancel(database, KIND, "k")
        await team.queue.dead_letters.redrive(job)


async def test_the_hook_writes_in_the_same_transaction(database: Database) -> None:
    async def tell(unit: Unit, job: Job[Number], failure: Failure) -> None:
        insert = "INSERT INTO kv (key, value) VALUES ($1, $2)"
        await unit.connection.execute(insert, "died", job.raw)
        unit.tell(Line("image:1", "classification_error", {"error": failure.to_json()}))

    async with crew(database, die, kind=KIND, on_dead=tell) as team:
        await team.add(1, KIND)
        await until(team.queue.dead_letters.page)
    assert await database.fetchval("SELECT value FROM kv WHERE key = 'died'") == {"n": 1}
    types = [line["type"] for line in await history(database, "image:1")]
    assert types == ["job_dead", "classification_error"]


async def test_a_hook_that_fails_buries_nothing_and_is_tried_again(database: Database) -> None:
    tries = 0

    async def fail_once(*_: object) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("the hook has a bug")

    starts = Starts(die)
    async with crew(database, starts, kind=KIND, on_dead=fail_once) as team:
        await team.add(1, KIND)
        [row] = await until(lambda: put_back(database))
        assert "the hook has a bug" in row["error"]["message"]
        await database.execute("UPDATE jobs SET run_at = now()")
        team.queue.wake()
        await until(team.queue.dead_letters.page)
    assert await database.fetchval("SELECT count(*) FROM activity") == 1


async def put_back(db: Database) -> list[dict[str, Any]]:
    return [row for row in await rows(db) if row["status"] == "delayed"]


async def test_throughput_counts_every_verdict(database: Database) -> None:
    async def by_number(job: Job[Number]) -> Verdict:
        if job.payload.n == 1:
            raise Broken
        return Done()

    async with crew(database, by_number, kind=KIND) as team:
        await asyncio.gather(*(team.add(number, KIND) for number in range(5)))
        await until(team.queue.dead_letters.page)
    *before, now = await team.queue.throughput()
    assert (now.processed, now.failed, now.retried) == (4, 1, 1)
    assert len(before) == 23
    assert {hour.processed for hour in before} == {0}
    assert now.hour - before[-1].hour == 3_600_000


async def test_handlers_with_retries_of_their_own_are_counted_alike(database: Database) -> None:
    """They end each job by themselves, and somebody else starts the next one."""

    async def by_number(job: Job[Number]) -> Verdict:
        return Done(failed=job.payload.n < 3, again=job.payload.n == 3)

    async with crew(database, by_number, kind=KIND) as team:
        await asyncio.gather(*(team.add(number, KIND) for number in range(5)))
        await until(lambda: empty(database))
    now = (await team.queue.throughput())[-1]
    assert (now.processed, now.failed, now.retried) == (2, 3, 1)


async def empty(db: Database) -> bool:
    return await rows(db) == []


async def test_status_counts_every_kind(database: Database) -> None:
    await dead(database, 1, 2)
    queue = a_queue(database, [KIND, a_kind("test.quiet")])
    await queue.enqueue(database, KIND, Number(3), organization="a", run_in=60)
    await queue.enqueue(database, KIND, Number(4), organization="a")
    await database.execute(
        "UPDATE jobs SET run_at = now() - interval '90 s' WHERE status = 'queued'"
    )
    quiet, work = await queue.status()
    assert (quiet.name, quiet.queued, quiet.oldest_seconds) == ("test.quiet", 0, None)
    assert (work.queued, work.running, work.delayed, work.dead_letters) == (1, 0, 1, 2)
    assert work.oldest_seconds is not None
    assert 89 < work.oldest_seconds < 120
    await queue.bus.stop()
