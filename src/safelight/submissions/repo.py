"""The table of submissions, and values beside them. policies/repo.py has what is not published."""

from collections.abc import Collection
from typing import Any

import asyncpg

from safelight.infra import kv
from safelight.infra.db import Connection, Database, read, write
from safelight.infra.injected import iso
from safelight.infra.states import Phase, listed
from safelight.submissions.jobs import PROCESS
from safelight.submissions.lifecycle import ENDED, Submission, SubmissionState
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import (
    BUDGET,
    BUDGET_MS,
    INCIDENTS_MS,
    INFLIGHT,
    INFLIGHT_MS,
    OLD_BUDGET,
    Budget,
    Inflight,
    SubmissionView,
    hour_of,
    incidents_key,
)

_FIELDS = tuple(Submission.__dataclass_fields__)
_COLUMNS = ", ".join(_FIELDS)
_PLACES = ", ".join(f"${n + 1}" for n in range(len(_FIELDS)))
_UNDER_WAY = f"state IN {listed(SubmissionState.in_phase(Phase.UNDER_WAY))}"
_ENDED = listed(ENDED)
_IN_LINE = f"job_lives('{PROCESS.name}', id)"
# Expiring values beside a row; $1 is the present moment.
_VIEW = f"""
    SELECT {_COLUMNS}, {_UNDER_WAY} AND {_IN_LINE} AS waiting,
           kv_get('{BUDGET}' || id, $1) AS budget, kv_get('{OLD_BUDGET}' || id, $1) AS older,
           kv_get('{INFLIGHT}' || id, $1) AS inflight
    FROM submissions
"""


@write
async def add(connection: Connection, submission: Submission) -> None:
    await connection.execute(
        f"INSERT INTO submissions ({_COLUMNS}) VALUES ({_PLACES})",
        *(getattr(submission, name) for name in _FIELDS),
    )


@read
async def find(db: Database | Connection, submission_id: str) -> Submission | None:
    row = await db.fetchrow(f"SELECT {_COLUMNS} FROM submissions WHERE id = $1", submission_id)
    return None if row is None else _submission(row)


@read
async def lock(connection: Connection, submission_id: str) -> Submission | None:
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM submissions WHERE id = $1 FOR UPDATE", submission_id
    )
    return None if row is None else _submission(row)


@write
async def start_run(connection: Connection, submission_id: str) -> int:
    run: int = await connection.fetchval(
        "UPDATE submissions SET run = run + 1 WHERE id = $1 RETURNING run", submission_id
    )
    return run


@write
async def move(
    connection: Connection,
    submission_id: str,
    state: SubmissionState,
    now: int,
    changes: dict[str, Any],
) -> None:
    """`changes` are columns that change together with the state."""
    settings = "".join(f", {name} = ${n}" for n, name in enumerate(changes, 4))
    await connection.execute(
        f"UPDATE submissions SET state = $2, updated_at = $3{settings} WHERE id = $1",
        submission_id,
        state,
        now,
        *changes.values(),
    )


@read
async def view(db: Database, submission_id: str, now: int) -> SubmissionView | None:
    row = await db.fetchrow(f"{_VIEW} WHERE id = $2", now, submission_id)
    return None if row is None else _view(row)


@read
async def page(
    db: Database,
    organization: str,
    state: SubmissionState | Phase | None,
    before: tuple[int, str] | None,
    limit: int,
    now: int,
) -> list[SubmissionView]:
    """Newest first; one row more than asked tells that there is more."""
    conditions, values = ["organization = $2"], [now, organization, limit + 1]
    if isinstance(state, Phase):
        conditions.append(f"state IN {listed(SubmissionState.in_phase(state))}")
    elif state is not None:
        values.append(state)
        conditions.append(f"state = ${len(values)}")
    if before is not None:
        values += before
        conditions.append(f"(created_at, id) < (${len(values) - 1}, ${len(values)})")
    rows = await db.fetch(
        f"{_VIEW} WHERE {' AND '.join(conditions)} ORDER BY created_at DESC, id DESC LIMIT $3",
        *values,
    )
    return [_view(row) for row in rows]


@read
async def counts(db: Database, organization: str, most: int) -> dict[SubmissionState, int]:
    """How many are in each state, counted up to so many."""
    rows = await db.fetch(
        """
        SELECT state, counted.amount FROM unnest($2::text[]) AS wanted (state)
        CROSS JOIN LATERAL (
            SELECT count(*)::integer AS amount FROM (
                SELECT FROM submissions WHERE organization = $1 AND state = wanted.state LIMIT $3
            ) AS known
        ) AS counted
        """,
        organization,
        list(SubmissionState),
        most,
    )
    return {SubmissionState(row["state"]): row["amount"] for row in rows}


@read
async def of_ids(db: Database, organization: str, ids: Collection[str]) -> dict[str, Submission]:
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM submissions WHERE id = ANY($2) AND organization = $1",
        organization,
        list(ids),
    )
    return {row["id"]: _submission(row) for row in rows}


# Stuck ones


@read
async def stuck(
    db: Database, before: int, after: tuple[int, str], limit: int, now: int
) -> list[SubmissionView]:
    """Under way since before then, and nothing in the queue works for them; longest first. As far
    ahead of now, a time was a wrong clock's and counts as well."""
    rows = await db.fetch(
        f"""
        {_VIEW} WHERE {_UNDER_WAY} AND (updated_at < $2 OR updated_at > 2 * $1::bigint - $2)
            AND (updated_at, id) > ($3, $4) AND NOT {_IN_LINE}
        ORDER BY updated_at, id LIMIT $5
        """,
        now,
        before,
        *after,
        limit,
    )
    return [_view(row) for row in rows]


@read
async def view_locked(
    connection: Connection, submission_id: str, now: int
) -> SubmissionView | None:
    """Locks first and reads in a statement of its own, which sees what was committed before."""
    await connection.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", submission_id)
    row = await connection.fetchrow(f"{_VIEW} WHERE id = $2", now, submission_id)
    return None if row is None else _view(row)


@read
async def lock_recovery(connection: Connection) -> bool:
    """Until the transaction's end; false when another process has it."""
    return bool(await connection.fetchval("SELECT recovery_try_lock()"))


# Values beside a submission, which expire


@read
async def inflight(connection: Connection, submission_id: str, now: int) -> Inflight | None:
    value = await kv.get(connection, f"{INFLIGHT}{submission_id}", now=now)
    return None if value is None else Inflight.load(value)


@write
async def put_inflight(connection: Connection, record: Inflight, now: int) -> None:
    key = f"{INFLIGHT}{record.submission_id}"
    await kv.put(connection, key, record.to_json(), now=now, ttl_ms=INFLIGHT_MS)


@write
async def clear_inflight(connection: Connection, submission_id: str) -> None:
    await kv.delete(connection, f"{INFLIGHT}{submission_id}")


@write
async def spend(connection: Connection, view: SubmissionView, budget: Budget, now: int) -> bool:
    """False: somebody else has changed it since the view."""
    key = f"{BUDGET}{view.submission.id}"
    value = budget.to_json()
    spent = await kv.compare_and_set(connection, key, view.budget, value, now=now, ttl_ms=BUDGET_MS)
    if spent and view.older is not None:
        await kv.delete(connection, f"{OLD_BUDGET}{view.submission.id}")
    return spent


@write
async def forget(connection: Connection, submission_id: str) -> None:
    """What is of no use once the submission is over."""
    for prefix in (INFLIGHT, BUDGET, OLD_BUDGET):
        await kv.delete(connection, f"{prefix}{submission_id}")


@write
async def count_incident(
    connection: Connection, classification: FailureClass, duration_ms: int, now: int
) -> None:
    """Added to its bucket in one statement, so that none is lost."""
    hour = hour_of(now)
    key = incidents_key(hour, classification)
    empty = {"hour": iso(hour), "classification": classification, "count": 0, "totalDurationMs": 0}
    await kv.compare_and_set(connection, key, None, empty, now=now, ttl_ms=INCIDENTS_MS)
    added = {"count": 1, "totalDurationMs": max(duration_ms, 0)}
    await kv.increment(connection, key, added, now=now, ttl_ms=INCIDENTS_MS)


# Sources that are gone


@read
async def of_source(db: Database, organization: str, kind: str, source_id: str) -> list[Submission]:
    """Those that can still be ended."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM submissions WHERE organization = $1 AND source_kind = $2 "
        f"AND source_id = $3 AND state NOT IN {_ENDED} ORDER BY created_at, id",
        organization,
        kind,
        source_id,
    )
    return [_submission(row) for row in rows]


@read
async def of_marker(
    db: Database, organization: str, marker: str, ids: list[str], limit: int
) -> list[Submission]:
    """Of these: what was made of that very upload, newest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM submissions WHERE id = ANY($3) AND organization = $1 "
        "AND source_kind = 'upload' AND source_marker = $2 "
        "ORDER BY created_at DESC, id DESC LIMIT $4",
        organization,
        marker,
        ids,
        limit,
    )
    return [_submission(row) for row in rows]


@write
async def outlive(db: Database, submission_id: str) -> None:
    """Its source was replaced before the name was deleted: deletes do not concern it any more."""
    await db.execute("UPDATE submissions SET source_current = false WHERE id = $1", submission_id)


def _submission(row: asyncpg.Record) -> Submission:
    values = {name: row[name] for name in _FIELDS}
    return Submission(**{**values, "state": SubmissionState(values["state"])})


def _view(row: asyncpg.Record) -> SubmissionView:
    return SubmissionView(
        _submission(row), row["waiting"], row["budget"], row["older"], row["inflight"]
    )
