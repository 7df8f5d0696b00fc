"""Runs move as their machine is drawn, and the statements that move them agree with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from safelight.classification import repo
from safelight.classification.jobs import RUN
from safelight.classification.lifecycle import Finding, Result, RunTarget
from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Job, JobId
from safelight.library.entry import ENTRY_STATUSES, MACHINE, RunStatus
from safelight.library.order import Mark, Stamp
from safelight.library.reconcile import repo as reconcile

TARGET = RunTarget("org", "a.jpg", "m", 1)
RESULT = Result("TABBY", 0.5, "model", 2)
LINE = Line("upload:a.jpg", "told")
ERROR = {"code": "X", "message": "x"}
START = "SELECT classification_start('org', 'a.jpg', 'm', 1)"
STOP = "SELECT classification_stop('org', 'a.jpg', 'm', 2)"
STATUS = "SELECT classification_status('org', 'a.jpg', 'm', 1)"
JOBS = "SELECT id, payload ->> 'run' AS run FROM jobs WHERE kind = 'classification.run'"

Move = Callable[[Unit], Awaitable[Any]]
Key = tuple[str, str, str, int]

# As near to the target as can be: each differs from it in one part.
OTHER_RUN: Key = ("org", "a.jpg", "m", 2)
OTHERS: tuple[Key, ...] = (
    ("else", "a.jpg", "m", 1),
    ("org", "b.jpg", "m", 1),
    ("org", "a.jpg", "n", 1),
)


async def with_entry(connection: Any, key: Key) -> None:
    await connection.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, run) "
        "VALUES ($1, $2, 1, 'safelight', $3, $4)",
        *key,
    )


async def done(unit: Unit) -> None:
    """The entry stands for the run, so that the result is wanted."""
    await with_entry(unit.connection, ("org", "a.jpg", "m", 1))
    assert await applied(unit)


async def not_wanted(unit: Unit) -> None:
    assert not await applied(unit)


async def applied(unit: Unit) -> bool:
    """The job of a run is ours, and its result is written."""
    row = (
        "INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, claim, "
        "lease_until, owner) VALUES ('classification.run', 'org', '', '{}', 0, 'running', now(), 1, "
        "now() + interval '1 hour', 'me') RETURNING id"
    )
    job_id = JobId(await unit.connection.fetchval(row))
    job = Job(job_id, RUN, "org", {}, 1, 1)
    finding = Finding(TARGET, RESULT, job, [LINE], [LINE])
    [(mine, taken)] = await repo.apply(unit.connection, [finding], 2, embeds=True)
    assert mine
    return bool(taken)


async def dropped(unit: Unit) -> None:
    await repo.drop(unit, TARGET, "for nothing")


async def failed(unit: Unit) -> None:
    await repo.note_failure(unit, TARGET, 1, ERROR, final=True)


async def tried(unit: Unit) -> None:
    await repo.note_failure(unit, TARGET, 1, ERROR, final=False)


async def gave_up(unit: Unit) -> None:
    mark = Mark(Stamp(1, None, "safelight"), TARGET.idempotency_key, "e")
    await reconcile.say_failed(unit, TARGET.name, mark, TARGET.run, ERROR)


async def child_died(unit: Unit) -> None:
    assert await repo.count_child_death(unit, TARGET) == 1


MOVES: list[tuple[Move, RunStatus]] = [
    (done, RunStatus.DONE),
    (not_wanted, RunStatus.DROPPED),
    (dropped, RunStatus.DROPPED),
    (failed, RunStatus.FAILED),
    (tried, RunStatus.PENDING),
    (gave_up, RunStatus.FAILED),
]


async def stopped(unit: Unit) -> None:
    assert await unit.connection.fetchval(STOP) == 1


async def with_run(connection: Any, status: str, key: Key = ("org", "a.jpg", "m", 1)) -> None:
    await connection.execute(
        "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, "
        "started_at) VALUES ($1, $2, $3, $4, $5, 1)",
        *key,
        status,
    )


async def statuses(connection: Any) -> list[str]:
    rows = await connection.fetch("SELECT status FROM classification_runs ORDER BY run")
    return [row["status"] for row in rows]


@pytest.mark.parametrize("before", RunStatus)
@pytest.mark.parametrize(("move", "after"), MOVES, ids=lambda value: getattr(value, "__name__", ""))
async def test_statements_move_a_run_as_it_is_drawn(
    database: Database, before: RunStatus, move: Move, after: RunStatus
) -> None:
    async with database.transaction() as connection:
        await with_run(connection, before)
        await move(Unit(connection, "org", 2))
        moved = before if after not in MACHINE.moves[before] else after
        assert await statuses(connection) == [moved]


async def everything_else(connection: Any) -> tuple[list[Any], list[Any]]:
    runs = await connection.fetch(
        "SELECT * FROM classification_runs "
        "WHERE (organization, name, idempotency_key, run) <> ('org', 'a.jpg', 'm', 1) "
        "ORDER BY organization, name, idempotency_key, run"
    )
    entries = await connection.fetch(
        "SELECT * FROM uploads WHERE (organization, name) <> ('org', 'a.jpg') "
        "ORDER BY organization, name"
    )
    return runs, entries


@pytest.mark.parametrize("move", [move for move, _ in MOVES] + [stopped, child_died])
async def test_a_move_touches_its_own_run_and_entry_alone(database: Database, move: Move) -> None:
    async with database.transaction() as connection:
        await with_run(connection, RunStatus.PENDING)
        await with_run(connection, RunStatus.FAILED, OTHER_RUN)  # what is over is never stopped
        for other in OTHERS:
            await with_run(connection, RunStatus.PENDING, other)
        for other in OTHERS[:2]:
            await with_entry(connection, other)
        before = await everything_else(connection)
        await move(Unit(connection, "org", 2))
        assert await everything_else(connection) == before


@pytest.mark.parametrize("other", [OTHER_RUN, OTHERS[2]])
async def test_a_result_or_a_failure_is_taken_only_by_the_entry_it_is_for(
    database: Database, other: Key
) -> None:
    async with database.transaction() as connection:
        await with_run(connection, RunStatus.PENDING)
        await with_entry(connection, other)
        unit = Unit(connection, "org", 2)
        assert not await repo.note_failure(unit, TARGET, 1, ERROR, final=False)
        assert not await applied(unit)
        entry = await connection.fetchrow("SELECT * FROM uploads")
        assert entry is not None
        assert (entry["classification_status"], entry["classification_label"]) == ("pending", None)


async def test_who_lost_the_job_writes_nothing(database: Database) -> None:
    async with database.transaction() as connection:
        await with_run(connection, RunStatus.PENDING)
        await with_entry(connection, ("org", "a.jpg", "m", 1))
        lost = Job(JobId(1), RUN, "org", {}, 1, 1)
        finding = Finding(TARGET, RESULT, lost, [LINE], [LINE])
        assert await repo.apply(connection, [finding], 2, embeds=True) == [(False, False)]
        assert await statuses(connection) == [RunStatus.PENDING]
        label = await connection.fetchval("SELECT classification_label FROM uploads")
        assert label is None
        assert await connection.fetchval("SELECT count(*) FROM activity") == 0


async def test_a_reply_is_kept_with_its_run(database: Database) -> None:
    keys = [("org", "a.jpg", "m", 1), OTHER_RUN, *OTHERS]
    for key in keys:
        await with_run(database, RunStatus.PENDING, key)
    for number, key in enumerate(keys):
        await repo.save_reply(database, RunTarget(*key), {"n": number})
    replies = [await repo.saved_reply(database, RunTarget(*key)) for key in keys]
    assert replies == [{"n": number} for number in range(len(keys))]


async def test_only_runs_of_the_marker_are_counted_and_asked(database: Database) -> None:
    async with database.transaction() as connection:
        for organization, name, marker, _ in OTHERS:
            await with_run(connection, RunStatus.DONE, (organization, name, marker, 7))
            await with_run(connection, RunStatus.DONE, (organization, name, marker, 1))
        await with_run(connection, RunStatus.DONE, OTHER_RUN)
        assert await connection.fetchval(STATUS) is None
        assert await connection.fetchval(START) == OTHER_RUN[-1] + 1


@pytest.mark.parametrize("before", RunStatus)
async def test_stopping_ends_what_is_under_way(database: Database, before: RunStatus) -> None:
    async with database.transaction() as connection:
        await with_run(connection, before)
        under_way = await connection.fetchval("SELECT classification_under_way($1)", before)
        assert under_way == before.under_way
        assert await connection.fetchval(STOP) == (1 if under_way else None)
        assert await statuses(connection) == [RunStatus.DROPPED if under_way else before]


def test_an_entry_never_shows_that_a_run_was_for_nothing() -> None:
    assert set(ENTRY_STATUSES) == set(RunStatus) - {RunStatus.DROPPED}


async def test_a_new_run_takes_the_place_of_what_worked_for_its_marker(database: Database) -> None:
    async with database.transaction() as connection:
        assert await connection.fetchval(START) == 1
        assert await connection.fetchval(START) == 2
        assert [row["run"] for row in await connection.fetch(JOBS)] == ["2"]
        assert await statuses(connection) == [RunStatus.DROPPED, RunStatus.PENDING]


async def test_a_run_that_cannot_have_the_queue_to_itself_does_not_start(
    database: Database,
) -> None:
    """What stands in its way is always stopped before; if that fails, so does the start."""
    with pytest.raises(asyncpg.RaiseError, match="still in the queue"):
        async with database.transaction() as connection:
            await connection.execute(
                "CREATE OR REPLACE FUNCTION job_cancel(p_kind text, p_key text, p_running boolean) "
                "RETURNS bigint LANGUAGE sql AS 'SELECT NULL::bigint'"
            )
            await connection.execute(START)
            await connection.execute(START)


@pytest.mark.parametrize("status", RunStatus)
async def test_a_run_counts_as_under_way_only_if_the_queue_knows_it(
    database: Database, status: RunStatus
) -> None:
    async with database.transaction() as connection:
        await with_run(connection, status)
        assert await connection.fetchval(STATUS) == (None if status.under_way else status)
        await connection.execute(
            "SELECT job_enqueue('classification.run', 'org', $1, 'org/a.jpg/m')",
            {"name": "a.jpg", "idempotencyKey": "m", "run": 1},
        )
        assert await connection.fetchval(STATUS) == status


async def test_deaths_are_counted(database: Database) -> None:
    async with database.transaction() as connection:
        unit = Unit(connection, "org", 2)
        assert await repo.count_child_death(unit, TARGET) == 0  # there is no such run
        await with_run(connection, RunStatus.PENDING)
        assert [await repo.count_child_death(unit, TARGET) for _ in range(3)] == [1, 2, 3]


async def test_labels_and_errors_are_asked_for_with_their_run(database: Database) -> None:
    labels = "SELECT classification_labels('org', 'a.jpg', 'm', 1)"
    standing = "SELECT error FROM classification_standing('org', 'a.jpg', 'm', 1, 'failed')"
    assert await database.fetchval(standing.replace("error", "status", 1)) == "failed"
    for key in [OTHER_RUN, *OTHERS]:
        await with_run(database, RunStatus.FAILED, key)
    await database.execute("UPDATE classification_runs SET labels = '[]', error = '{}'")
    assert await database.fetchval(labels) is None
    assert await database.fetchval(standing) is None
    await with_run(database, RunStatus.FAILED)
    await database.execute("UPDATE classification_runs SET labels = '[1]', error = $1", ERROR)
    assert await database.fetchval(labels) == [1]
    assert await database.fetchval(standing) == ERROR
    done = "SELECT error FROM classification_standing('org', 'a.jpg', 'm', 1, 'done')"
    assert await database.fetchval(done) is None


async def test_a_server_of_the_version_before_writes_results_too(database: Database) -> None:
    async with database.transaction() as connection:
        await with_run(connection, RunStatus.PENDING)
        await with_entry(connection, ("org", "a.jpg", "m", 1))
        row = await connection.fetchrow(
            "SELECT * FROM classification_apply('org', 'a.jpg', 'm', 1, '{pending}', 'L', 1, 'x', "
            "'{}', 2, 1, 1, '[]', '[]')"
        )
        assert row
        assert tuple(row) == (False, False)
