"""The statements on the job tables, which nobody else names; the hot ones are functions in sql/.
What follows a claim is fenced on the (id, claim) of a leased row: no row is "no longer mine"."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from safelight.infra.db import Connection, Database, read, write
from safelight.infra.queue.jobs import (
    Failure,
    HourCount,
    Job,
    JobKind,
    KindStatus,
    PutBack,
    Schedule,
    Tended,
)

P = TypeVar("P")
Db = Connection | Database
_LETTER = """
id, kind, organization, payload, error, attempts,
(extract(epoch FROM created_at) * 1000)::bigint AS first_at,
(extract(epoch FROM died_at) * 1000000)::bigint AS died_us
"""
_DIED = "coalesce(timestamptz 'epoch' + $3::bigint * interval '1 microsecond', 'infinity')"
# A place in the list is compared as a whole, in the order that one index alone has.
_DEAD = f"SELECT {_LETTER} FROM jobs WHERE status = 'dead' AND ($2::text IS NULL OR kind = $2) AND "
_CODE = "coalesce(error ->> 'code', '')"
_CODED = f"AND ($6::text IS NULL OR {_CODE} = $6)"
_LETTERS = f"""{_DEAD} $1::text IS NULL AND (died_at, id) < ({_DIED}, $4::bigint) {_CODED}
ORDER BY jobs.died_at DESC, id DESC LIMIT $5"""
_LETTERS_OF = f"""{_DEAD} organization >= $1
AND (organization, died_at, id) < ($1, {_DIED}, $4::bigint) {_CODED}
ORDER BY organization DESC, jobs.died_at DESC, id DESC LIMIT $5"""
_OF = "($1::text IS NULL OR organization = $1)"
_OF_KIND_AND_CODE = f"($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR {_CODE} = $3)"
_THAT = "id = $1 AND ($2::text IS NULL OR organization = $2)"
_ENROL_SECONDS = 15.0  # an earlier session of the same worker may not be known to be dead yet


@write
async def enqueue(
    db: Db,
    kind: JobKind[P],
    payload: P,
    organization: str,
    *,
    key: str | None = None,
    node: str | None = None,
    priority: int = 0,
    run_at: datetime | None = None,
    run_in: float | None = None,
    owner: str | None = None,
    lease: timedelta | None = None,
) -> int | None:
    """None: a living job has the key."""
    job_id: int | None = await db.fetchval(
        """
        SELECT job_enqueue($1, $2, $3, $4, $5, $6,
            coalesce($7, clock_timestamp() + make_interval(secs => $8)), $9, $10)
        """,
        kind.name, organization, kind.dump(payload), key, node, priority, run_at, run_in, owner,
        lease,
    )  # fmt: skip
    return job_id


@write
async def claim(
    db: Db, openings: Sequence[tuple[str, int, str]], node: str, owner: str, lease: timedelta
) -> list[asyncpg.Record]:
    """Each opening: a kind, how many of it, and the organization that was served last."""
    kinds, slots, after = zip(*openings, strict=True)
    return await db.fetch(
        "SELECT * FROM job_take($1, $2, $3, $4, $5, $6)", kinds, slots, after, node, owner, lease
    )


@write
async def claim_guest(
    db: Db, kind: str, busy: Sequence[str], node: str, owner: str, lease: timedelta
) -> list[asyncpg.Record]:
    """At most one, of an organization that is not `busy`."""
    return await db.fetch(
        "SELECT * FROM job_take_guest($1, $2, $3, $4, $5)", kind, busy, node, owner, lease
    )


@write
async def claim_suspect(
    db: Db, kinds: Sequence[str], node: str, owner: str, lease: timedelta
) -> list[asyncpg.Record]:
    """At most one."""
    return await db.fetch(
        "SELECT * FROM job_take_suspect($1, $2, $3, $4)", kinds, node, owner, lease
    )


@write
async def tend(
    db: Db,
    kinds: Sequence[str],
    node: str,
    schedules: Sequence[str],
    *,
    owner: str = "",
    held: Sequence[int] = (),
    patient: bool = False,
) -> Tended:
    """`held` of `owner` are not looked at. `patient`: nobody loses a lease this time."""
    row = await db.fetchrow(
        "SELECT * FROM job_attend($1, $2, $3, $4, $5, $6)",
        kinds, node, schedules, owner, held, patient,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return Tended(*row)


@write
async def enrol(db: Connection, owner: str, node: str, version: str) -> None:
    """From now on, and until this session ends, others see that the worker is there."""
    await db.execute("SELECT job_enrol($1)", owner, timeout=_ENROL_SECONDS)
    await db.execute(
        "UPDATE job_workers SET node = $2, version = $3 WHERE owner = $1", owner, node, version
    )


@write
async def resign(db: Db, owner: str) -> None:
    """Nobody looks for the worker any more."""
    await db.execute("DELETE FROM job_workers WHERE owner = $1", owner)


@write
async def take_over(db: Db, owners: Sequence[str]) -> None:
    """The jobs of workers that are gone."""
    await db.execute("SELECT job_take_over($1)", owners)


@write
async def renew(db: Db, jobs: Sequence[Job[Any]], lease: timedelta) -> None:
    await db.execute(
        "SELECT job_renew($1, $2, $3)",
        [job.id for job in jobs],
        [job.claim for job in jobs],
        lease,
    )


@write
async def finish(db: Db, jobs: Sequence[Job[Any]]) -> set[int]:
    """Ends jobs; returns those that were still ours."""
    rows = await db.fetch(
        "SELECT job_finish_all($1, $2) AS id",
        [job.id for job in jobs],
        [job.claim for job in jobs],
    )
    return {row["id"] for row in rows}


@write
async def put_off(db: Connection, job: Job[Any], seconds: float) -> bool:
    """Back to the queue, as if it had ended and been enqueued again. False: no longer ours."""
    return bool(
        await db.fetchval("SELECT job_put_off($1, $2, $3)", job.id, job.claim, float(seconds))
    )


@read
async def hold(db: Connection, job: Job[Any]) -> bool:
    """Whether it is still ours; if so, until the transaction ends."""
    return bool(await db.fetchval("SELECT job_hold($1, $2)", job.id, job.claim))


@write
async def put_back(db: Db, jobs: Sequence[tuple[Job[Any], PutBack]]) -> set[int]:
    """Queues jobs again; returns those that were still ours."""
    rows = await db.fetch(
        "SELECT job_return($1, $2, $3, $4, $5, $6) AS id",
        [job.id for job, _ in jobs],
        [job.claim for job, _ in jobs],
        [again.after for _, again in jobs],
        [again.failure and again.failure.code for _, again in jobs],
        [again.failure and again.failure.message for _, again in jobs],
        [again.away for _, again in jobs],
    )
    return {row["id"] for row in rows}


@write
async def give_back(db: Db, owner: str) -> int:
    """Whatever this worker still holds, also what a lost answer kept it from knowing about."""
    rows = await db.fetch(
        """
        UPDATE jobs SET status = CASE WHEN deaths >= 2 THEN 'delayed' ELSE 'queued' END,
                        attempts = attempts - 1, owner = NULL, lease_until = NULL
        WHERE status = 'running' AND owner = $1 RETURNING id
        """,
        owner,
    )
    return len(rows)


@write
async def bury(db: Connection, job: Job[Any], failure: Failure) -> bool:
    buried = await db.fetchval(
        """
        UPDATE jobs SET status = 'dead', died_at = now(), attempts = $3, deaths = 0, waits = 0,
                        owner = NULL, lease_until = NULL, error = $4
        WHERE id = $1 AND claim = $2 AND lease_until IS NOT NULL RETURNING true
        """,
        job.id, job.claim, job.starts, failure.to_json(),
    )  # fmt: skip
    return bool(buried)


@write
async def cancel(db: Db, kind: str, key: str, *, running: bool) -> int | None:
    job_id: int | None = await db.fetchval("SELECT job_cancel($1, $2, $3)", kind, key, running)
    return job_id


@write
async def reschedule(
    db: Db, kind: str, key: str, run_at: datetime | None, run_in: float | None
) -> int | None:
    job_id: int | None = await db.fetchval(
        """
        SELECT job_reschedule($1, $2,
            coalesce($3, clock_timestamp() + make_interval(secs => $4), now()))
        """,
        kind, key, run_at, run_in,
    )  # fmt: skip
    return job_id


@write
async def adopt(db: Db, kind: str, keys: Sequence[str], node: str) -> int:
    count: int = await db.fetchval("SELECT job_adopt($1, $2, $3)", kind, list(keys), node)
    return count


@write
async def redrive(db: Connection, job_id: int, organization: str | None) -> asyncpg.Record | None:
    statement = (
        "UPDATE jobs SET status = 'queued', run_at = now(), attempts = 0, died_at = NULL "
        f"WHERE {_THAT} AND status = 'dead' RETURNING kind, organization, payload"
    )
    return await db.fetchrow(statement, job_id, organization)


@write
async def discard(db: Connection, job_id: int, organization: str | None) -> asyncpg.Record | None:
    statement = (
        f"DELETE FROM jobs WHERE {_THAT} AND status = 'dead' RETURNING kind, organization, payload"
    )
    return await db.fetchrow(statement, job_id, organization)


@read
async def organization_of(db: Db, job_id: int, organization: str | None) -> str | None:
    """Whose job it is, dead or alive; None when there is none, or not of that organization."""
    statement = f"SELECT organization FROM jobs WHERE {_THAT}"
    found: str | None = await db.fetchval(statement, job_id, organization)
    return found


@read
async def dead_letters(
    db: Db,
    organization: str | None,
    kind: str | None,
    before: tuple[int, int] | None,
    limit: int,
    code: str | None = None,
) -> list[asyncpg.Record]:
    """Newest first."""
    statement = _LETTERS if organization is None else _LETTERS_OF
    return await db.fetch(statement, organization, kind, *(before or (None, 0)), limit, code)


@read
async def dead_among(db: Db, ids: Sequence[int]) -> list[asyncpg.Record]:
    """Those that are still dead letters."""
    return await db.fetch(
        f"SELECT {_LETTER} FROM jobs WHERE id = ANY($1) AND status = 'dead'", list(ids)
    )


@read
async def count_dead(db: Db, *narrowed: str | None) -> int:
    """`narrowed` to an organization, a kind and a code of errors, or None."""
    statement = f"SELECT count(*) FROM jobs WHERE status = 'dead' AND {_OF} AND {_OF_KIND_AND_CODE}"
    return int(await db.fetchval(statement, *narrowed))


@read
async def letters_about(
    db: Db, kind: str, organization: str, facts: Mapping[str, Any]
) -> list[asyncpg.Record]:
    """Dead letters of a kind whose payload says all of that."""
    return await db.fetch(
        f"""
        SELECT {_LETTER} FROM jobs
        WHERE status = 'dead' AND organization = $1 AND kind = $2 AND payload @> $3
        ORDER BY id DESC
        """,
        organization, kind, dict(facts),
    )  # fmt: skip


@read
async def living(
    db: Db, kind: str, field: str, wanted: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Of organizations and values: those for which a job waits or runs whose payload has the value
    in that field. One pass over the jobs of the kind, which has no index for this."""
    rows = await db.fetch(
        """
        SELECT DISTINCT jobs.organization, payload ->> $2 AS value FROM jobs
        JOIN unnest($3::text[], $4::text[]) AS wanted (organization, value)
          ON jobs.organization = wanted.organization AND payload ->> $2 = wanted.value
        WHERE kind = $1 AND status <> 'dead'
        """,
        kind, field, *([pair[part] for pair in wanted] for part in (0, 1)),
    )  # fmt: skip
    return {(row["organization"], row["value"]) for row in rows}


@read
async def status(db: Db) -> list[KindStatus]:
    """One pass over the table: as long as the backlog."""
    rows = await db.fetch(
        """
        SELECT kind AS name,
               count(*) FILTER (WHERE status = 'queued') AS queued,
               count(*) FILTER (WHERE status = 'running') AS running,
               count(*) FILTER (WHERE status = 'delayed') AS delayed,
               count(*) FILTER (WHERE status = 'delayed' AND waits > 0) AS away,
               count(*) FILTER (WHERE status = 'dead') AS dead_letters,
               extract(epoch FROM now() - min(run_at) FILTER (WHERE status = 'queued'))::float8
                   AS oldest_seconds
        FROM jobs GROUP BY kind
        """
    )
    return [KindStatus(**row) for row in rows]


@write
async def declare(db: Db, schedules: Sequence[Schedule], node: str) -> None:
    """A new or changed schedule first fires at its next tick."""
    for schedule in schedules:
        await db.execute(
            """
            INSERT INTO job_schedules (name, kind, node, every_seconds, next_at)
            VALUES ($1, $2, $3, $4, job_next_tick($4))
            ON CONFLICT (name) DO UPDATE SET kind = excluded.kind,
                every_seconds = excluded.every_seconds, next_at = excluded.next_at
            WHERE (job_schedules.kind, job_schedules.every_seconds)
                  <> (excluded.kind, excluded.every_seconds)
            """,
            schedule.name(node),
            schedule.kind.name,
            node if schedule.per_node else "",
            schedule.every,
        )


@write
async def count(db: Db, *processed_failed_retried: int) -> None:
    await db.execute(
        """
        WITH old AS (DELETE FROM job_throughput WHERE hour < now() - interval '48 hours')
        INSERT INTO job_throughput AS t (hour, processed, failed, retried)
        VALUES (date_trunc('hour', now(), 'UTC'), $1, $2, $3)
        ON CONFLICT (hour) DO UPDATE SET processed = t.processed + excluded.processed,
            failed = t.failed + excluded.failed, retried = t.retried + excluded.retried
        """,
        *processed_failed_retried,
    )


@read
async def throughput(db: Db, hours: int) -> list[HourCount]:
    rows = await db.fetch(
        """
        SELECT (extract(epoch FROM hour) * 1000)::bigint AS hour,
               coalesce(processed, 0) AS processed, coalesce(failed, 0) AS failed,
               coalesce(retried, 0) AS retried
        FROM generate_series(date_trunc('hour', now(), 'UTC') - ($1 - 1) * interval '1 hour',
                             now(), interval '1 hour') AS hour
        LEFT JOIN job_throughput USING (hour) ORDER BY hour
        """,
        hours,
    )
    return [HourCount(**row) for row in rows]
