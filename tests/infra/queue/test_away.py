"""What a job needs is away: it waits, for as long as it takes, and nothing is spent."""

import asyncio
import errno
import socket
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.queue.crew import Number, Starts, a_kind, crew, nothing_left, rows
from safelight.classification.jobs import RUN
from safelight.errors import Forbidden, Unavailable
from safelight.infra.away import is_away
from safelight.infra.db import Database
from safelight.infra.queue.jobs import (
    DAY,
    HOUR,
    MINUTE,
    Backoff,
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    PutBack,
    Retry,
    Verdict,
)
from safelight.infra.queue.ledger import outcome
from safelight.objects.jobs import DELIVER
from safelight.objects.store import StoreUnavailable
from safelight.sandbox.sandbox import SandboxTimeout
from safelight.testing.waiting import until

QUICK = a_kind(retry=Backoff(attempts=2, first=0.01, cap=0.01, away=0.02))
PATIENT = a_kind(retry=Backoff(attempts=2, first=1.0))
AWAY = Unavailable("The database is away.")


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(),
        StoreUnavailable(),
        asyncpg.DiskFullError(),
        asyncpg.OutOfMemoryError(),
        asyncpg.TooManyConnectionsError(),
        asyncpg.QueryCanceledError(),
        asyncpg.PostgresIOError(),
        asyncpg.LockNotAvailableError(),
        asyncpg.DeadlockDetectedError(),
        asyncpg.SerializationError(),
        asyncpg.ReadOnlySQLTransactionError(),
        asyncpg.ConnectionDoesNotExistError(),
        TimeoutError(),
        ConnectionResetError(),
        socket.gaierror(socket.EAI_AGAIN, "no name server"),
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EMFILE, "no more files"),
    ],
)
def test_the_surroundings_are_known(error: Exception) -> None:
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(),
        SandboxTimeout(),
        FileNotFoundError(errno.ENOENT, "gone"),
        PermissionError(errno.EACCES, "not ours"),
        ValueError(),
        MemoryError(),
        asyncpg.UniqueViolationError(),
        asyncpg.UndefinedTableError(),
    ],
)
def test_what_is_the_jobs_own_fault_is_not_among_them(error: Exception) -> None:
    assert not is_away(error)


def job(attempt: int = 1, waits: int = 0) -> Job[Number]:
    return Job(JobId(1), PATIENT, "acme", {"n": 1}, 1, attempt, waits=waits)


@given(st.integers(1, 100), st.integers(0, 5000))
def test_waits_grow_to_a_minute_and_never_end(attempt: int, waits: int) -> None:
    again = outcome(job(attempt, waits), Retry(AWAY))
    assert isinstance(again, PutBack)
    assert again.away
    longest = min(60, 2**waits)
    assert longest / 2 <= again.after <= longest


def test_patience_ends_after_about_a_day() -> None:
    kind = a_kind(retry=Backoff(patience=DAY))
    asked = [Job(JobId(1), kind, "acme", {"n": 1}, 1, 1, waits=waits) for waits in range(3000)]
    ends = [isinstance(outcome(job, Retry(AWAY)), Dead) for job in asked]
    first = ends.index(True)
    waited = sum(kind.retry.wait_for_others(waits, 0.5) for waits in range(first))
    assert abs(waited - DAY) < HOUR
    assert all(ends[first:])


@given(st.integers(0, 200))
def test_a_hint_is_the_least_and_does_not_stop_the_growth(waits: int) -> None:
    again = outcome(job(1, waits), Retry(AWAY, after=7))
    assert isinstance(again, PutBack)
    assert max(7, min(60, 2**waits) / 2) <= again.after <= max(7, min(60, 2**waits))


def test_deliveries_and_runs_wait_from_a_second_to_a_quarter_of_an_hour_for_a_day() -> None:
    for kind in (DELIVER, RUN):
        waits = [kind.retry.wait_for_others(n, 0.5) for n in range(200)]
        assert (waits[0], max(waits)) == (0.75, 15 * MINUTE * 0.75)
        assert all(kind.retry.patient(n) for n in range(4))
        first = next(n for n in range(200) if not kind.retry.patient(n))
        assert abs(sum(waits[:first]) - DAY) < HOUR
        assert kind.retry.attempts == 4


def test_a_handler_may_say_it_itself() -> None:
    failure = Failure("ELSEWHERE", "The other side is closed.")
    assert outcome(job(2), Retry(failure, after=3, away=True)) == PutBack(3, failure, away=True)
    assert outcome(job(2), Retry(failure, after=3)) == Dead(failure)


async def test_ten_outages_spend_no_attempt_and_the_error_is_there_to_read(
    database: Database,
) -> None:
    seen: list[dict[str, Any]] = []

    async def away_for_a_while(job: Job[Number]) -> Verdict:
        seen.extend(await rows(database))
        if job.waits < 10:
            raise AWAY
        return Done()

    starts = Starts(away_for_a_while)
    async with crew(database, starts, kind=QUICK) as team:
        await team.add(1, QUICK)
        await until(lambda: nothing_left(database))
    assert [job.attempt for _, _, job in starts.seen] == [1] * 11
    assert [row["waits"] for row in seen] == list(range(11))
    assert seen[1]["error"] == {"code": "UNAVAILABLE", "message": AWAY.default_message()}


async def test_waits_begin_anew_after_a_real_failure(database: Database) -> None:
    async def now_this_now_that(job: Job[Number]) -> Verdict:
        if len(starts.seen) == 3:
            raise ValueError("its own")
        if len(starts.seen) < 5:
            raise AWAY
        return Done()

    starts = Starts(now_this_now_that)
    async with crew(database, starts, kind=QUICK) as team:
        await team.add(1, QUICK)
        await until(lambda: nothing_left(database))
    assert [job.waits for _, _, job in starts.seen] == [0, 1, 2, 0, 1]
    assert [job.attempt for _, _, job in starts.seen] == [1, 1, 1, 2, 2]


async def fill_the_disk(db: Database) -> None:
    """Every change of a job is refused as a server without room refuses it."""
    await db.execute(
        """
        CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
        END $$
        """
    )
    await db.execute(
        "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON jobs "
        "FOR EACH STATEMENT EXECUTE FUNCTION no_room()"
    )


@pytest.mark.parametrize("verdict", [Done(), Retry(ValueError("once")), Dead(ValueError("no"))])
async def test_an_end_that_finds_no_room_is_kept_until_there_is(
    database: Database, verdict: Verdict
) -> None:
    full = asyncio.Event()

    async def end_when_full(job: Job[Number]) -> Verdict:
        if full.is_set():
            return Done()
        await fill_the_disk(database)
        full.set()
        return verdict

    starts = Starts(end_when_full)
    async with crew(database, starts, kind=QUICK, lease=0.6) as team:
        await team.add(1, QUICK)
        await full.wait()
        renewal = team.worker._renewed
        await until(lambda: team.worker._patient_until > renewal + 0.6, 5)  # a lease, and troubled
        await database.execute("DROP TRIGGER full_disk ON jobs")
        if isinstance(verdict, Dead):
            [letter] = await until(team.queue.dead_letters.page)
            assert letter.error == {"code": "ValueError", "message": "no"}
            return
        await until(lambda: nothing_left(database))
    runs = [(job.claim, job.attempt, job.deaths) for _, _, job in starts.seen]
    assert runs == ([(1, 1, 0)] if verdict == Done() else [(1, 1, 0), (2, 2, 0)])
