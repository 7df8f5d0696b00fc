"""What the people who keep it running see of the queue, beside its counts; all of it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from safelight.infra.db import Database, read


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters of one kind that gave up for one reason."""

    kind: str
    code: str
    count: int
    organizations: int
    latest: int
    newest: Sequence[int]  # ids of a few, the latest death first


@dataclass(frozen=True, slots=True)
class ScheduleTrouble:
    """`status` and what follows are of its last run that did not go well, if it is known."""

    name: str
    kind: str
    node: str
    every_seconds: int
    next_at: int
    overdue: bool
    status: str
    attempts: int
    error: dict[str, str] | None
    at: int | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """`runs` are how many jobs of which kinds it has at hand. One of an earlier version does not
    say where it is; one without `since` holds jobs, and is not known to be there."""

    owner: str
    node: str
    version: str
    since: int | None
    present: bool
    runs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AwayNotice:
    """Jobs of a kind that wait for something that is away, and what they were told."""

    kind: str
    message: str
    count: int
    next_at: int


@read
async def dead_groups(db: Database, organization: str | None, few: int) -> list[LetterGroup]:
    """One pass over the dead ones; the largest group first, with the ids of a few of each."""
    rows = await db.fetch(
        """
        SELECT kind, coalesce(error ->> 'code', '') AS code, count(*) AS count,
               count(DISTINCT organization) AS organizations,
               (extract(epoch FROM max(died_at)) * 1000)::bigint AS latest,
               (array_agg(id ORDER BY died_at DESC, id DESC))[1:$2] AS newest
        FROM jobs WHERE status = 'dead' AND ($1::text IS NULL OR organization = $1)
        GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
        """,
        organization,
        few,
    )
    return [LetterGroup(**row) for row in rows]


@read
async def schedules_in_trouble(db: Database, kinds: Sequence[str]) -> list[ScheduleTrouble]:
    """Those that nobody has moved on for a minute, those a run of which gave up and was not settled
    since, and those that are being tried again."""
    rows = await db.fetch(
        """
        SELECT schedule.name, schedule.kind, schedule.node, every_seconds,
               (extract(epoch FROM next_at) * 1000)::bigint AS next_at,
               next_at < now() - interval '1 minute' AS overdue,
               coalesce(job.status, '') AS status, coalesce(job.attempts, 0) AS attempts,
               job.error, (extract(epoch FROM coalesce(died_at, job.run_at)) * 1000)::bigint AS at
        FROM job_schedules AS schedule LEFT JOIN LATERAL (
            SELECT status, attempts, error, died_at, run_at FROM jobs
            WHERE jobs.kind = schedule.kind AND jobs.key = schedule.name
              AND (status = 'dead' OR error IS NOT NULL)
            ORDER BY id DESC LIMIT 1
        ) AS job ON true
        WHERE schedule.kind = ANY($1)
          AND (job.error IS NOT NULL OR next_at < now() - interval '1 minute')
        ORDER BY schedule.name
        """,
        kinds,
    )
    return [ScheduleTrouble(**row) for row in rows]


@read
async def workers(db: Database) -> list[WorkerRow]:
    """Those that are there, and whoever holds a job; the longest there first."""
    rows = await db.fetch(
        """
        SELECT coalesce(worker.owner, holder.owner) AS owner,
               coalesce(nullif(worker.node, ''), holder.node, '') AS node,
               coalesce(worker.version, '') AS version,
               (extract(epoch FROM enrolled_at) * 1000)::bigint AS since,
               worker.owner IS NOT NULL AND NOT presence_gone(worker.owner) AS present,
               coalesce(runs, '{}') AS runs
        FROM job_workers AS worker FULL JOIN (
            SELECT owner, max(node) AS node, jsonb_object_agg(kind, count) AS runs FROM (
                SELECT owner, kind, max(node) AS node, count(*) AS count FROM jobs
                WHERE status = 'running' AND owner IS NOT NULL GROUP BY owner, kind
            ) AS running GROUP BY owner
        ) AS holder ON holder.owner = worker.owner
        ORDER BY enrolled_at NULLS LAST, 1
        """
    )
    return [WorkerRow(**row) for row in rows]


@read
async def waits_for(db: Database) -> list[AwayNotice]:
    """What is waited for because it is away, by kind and by what it said; the most first."""
    rows = await db.fetch(
        """
        SELECT kind, coalesce(error ->> 'message', '') AS message, count(*) AS count,
               (extract(epoch FROM min(run_at)) * 1000)::bigint AS next_at
        FROM jobs WHERE status = 'delayed' AND waits > 0 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 50
        """
    )
    return [AwayNotice(**row) for row in rows]
