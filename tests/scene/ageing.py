"""What only time brings: months between the pictures, and what stopped, died or is still on its
way. Rows are changed directly, as nobody waits for months."""

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg

from harness import Server
from safelight.infra.injected import iso
from safelight.infra.postgres.server import join
from safelight.submissions.lifecycle import SubmissionState
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import HOUR_MS, Inflight, incidents_key

DAY_MS = 86_400_000
EMPTY = "north"  # an organization without anything

# Tables, their times, and what they say of: the subject of what is moved.
_TIMES = (
    ("uploads", ("event_time", "classified_at"), "'upload:' || t.name"),
    ("upload_words", ("event_time",), "'upload:' || t.name"),
    ("objects", ("event_time",), "'upload:' || t.name"),
    ("classification_runs", ("started_at", "finished_at"), "'upload:' || t.name"),
    ("images", ("created_at", "updated_at"), "'upload:' || t.name"),
    ("submissions", ("created_at", "updated_at"), "'submission:' || t.id"),
    ("approvals", ("created_at", "decided_at", "expires_at"), "t.subject_type || ':' || t.subject_id"),
    ("generations", ("created_at", "completed_at"), "'generation:' || t.id"),
    ("artifacts", ("created_at",), "'generation:' || t.generation_id"),
    ("activity", ("at",), "t.subject"),
    ("activity", ("at",), "CASE WHEN t.subject NOT IN (SELECT subject FROM moved) THEN t.also END"),
)  # fmt: skip
_PENDING = (
    """
    UPDATE uploads SET classification_status = 'pending', classification_label = NULL,
        classification_score = NULL, classified_at = NULL, drawn = 0
    WHERE organization = $1 AND name = $2
    """,
    "DELETE FROM thumbnails WHERE organization = $1 AND name = $2",
    """
    UPDATE classification_runs SET status = 'pending', labels = NULL, finished_at = NULL
    WHERE organization = $1 AND name = $2
    """,
    """
    INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, attempts,
                      error)
    SELECT 'classification.run', organization, '',
           jsonb_build_object('name', name, 'idempotencyKey', idempotency_key, 'run', run),
           classification_key(organization, name, idempotency_key), 0, 'delayed',
           now() + interval '40 minutes', 3,
           '{"code": "UNAVAILABLE", "message": "The classifier does not answer."}'
    FROM uploads WHERE organization = $1 AND name = $2
    """,
)
_ALIKE = (
    ["Espresso.jpg", "Espresso again.jpg"],
    ["Chelsea.jpg", "Chelsea (copy).jpg", "Reykjavik.jpg"],
)
_TWINS = """
INSERT INTO twins (organization, name, idempotency_key, twins, similarity)
SELECT organization, name, idempotency_key, $3, 0.97 FROM uploads
WHERE organization = $1 AND name = ANY ($2) ON CONFLICT DO NOTHING
"""
_DEAD = """
INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, created_at, attempts,
                  error, died_at)
SELECT $1, $2, '', $3, 0, 'dead', now(), now() - n * interval '37 minutes' - interval '3 hours', 8,
       $4, now() - n * interval '37 minutes' FROM generate_series(1, $5::integer) AS n
"""
_THROUGHPUT = """
INSERT INTO job_throughput (hour, processed, failed, retried)
SELECT date_trunc('hour', now()) - n * interval '1 hour', (400 + 300 * sin(n / 3.0))::integer,
       n % 5, (n * 7) % 23 FROM generate_series(1, 23) AS n
ON CONFLICT (hour) DO NOTHING
"""


def aged(server: Server, days: Mapping[str, float], made: Mapping[str, str], late: str) -> None:
    """`days` ago each subject came; `made` are submissions, and a
    generation. In a thread of its own: where a browser
    is driven no loop may run."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _age(server, days, made, late)).result()


async def _age(
    server: Server, days: Mapping[str, float], made: Mapping[str, str], late: str
) -> None:
    connection = await asyncpg.connect(join(server.data_dir))
    try:
        async with connection.transaction():
            await _move(connection, days)
            await _stop(connection, made)
            for statement in _PENDING:
                await connection.execute(statement, "default", late)
            for number, names in enumerate(_ALIKE):
                await connection.execute(_TWINS, "default", names, 9_000_000 + number)
            await _die(connection, made)
            await connection.execute(_THROUGHPUT)
            await _another(connection)
    finally:
        await connection.close()


async def _move(connection: Any, days: Mapping[str, float]) -> None:
    await connection.execute("CREATE TEMP TABLE moved (subject text PRIMARY KEY, by bigint)")
    rows = [(subject, int(ago * DAY_MS)) for subject, ago in days.items()]
    await connection.copy_records_to_table("moved", records=rows)
    for table, columns, subject in _TIMES:
        sets = ", ".join(f"{column} = t.{column} - by" for column in columns)
        await connection.execute(
            f"UPDATE {table} AS t SET {sets} FROM moved "
            f"WHERE t.organization = $1 AND moved.subject = {subject}",
            "default",
        )


async def _stop(connection: Any, made: Mapping[str, str]) -> None:
    """One stands still for minutes, one has just come."""
    now = await connection.fetchval("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    since = now - 11 * 60_000
    stage = SubmissionState.TIER2_SCANNING
    move = (
        "UPDATE submissions SET state = $2, updated_at = $3, rendition_type = NULL, "
        "rendition_size = NULL, rendition_etag = NULL WHERE id = $1"
    )
    await connection.execute(move, made["stale"], stage, since)
    await connection.execute(move, made["received"], SubmissionState.RECEIVED, now)
    flight = Inflight(made["stale"], 2, stage, since, since)
    flight = flight.failed(FailureClass.SCAN_TIMEOUT, "The scan took too long.", since + 30_000)
    await _remember(connection, f"inflight:{made['stale']}", flight.to_json())
    for back, kind, count in ((2, FailureClass.SCAN_TIMEOUT, 3), (9, FailureClass.MODEL_ERROR, 1)):
        hour = now - now % HOUR_MS - back * HOUR_MS
        told = {"hour": iso(hour), "classification": kind, "count": count}
        await _remember(
            connection, incidents_key(hour, kind), {**told, "totalDurationMs": count * 21_000}
        )


async def _remember(connection: Any, key: str, value: Mapping[str, Any]) -> None:
    await connection.execute(
        "INSERT INTO kv VALUES ($1, $2::jsonb, NULL) ON CONFLICT DO NOTHING", key, json.dumps(value)
    )


async def _die(connection: Any, made: Mapping[str, str]) -> None:
    """Two kinds gave up: a dozen of one, a few of the other."""
    slow = {"code": "SCAN_TIMEOUT", "message": "The image could not be checked in time."}
    away = {"code": "NETWORK_ERROR", "message": "The provider closed the connection."}
    for kind, payload, error, count in (
        ("submissions.process", {"submissionId": made["rejected"]}, slow, 12),
        ("generations.studio", {"generationId": made["generation"]}, away, 4),
    ):
        await connection.execute(
            _DEAD, kind, "default", json.dumps(payload), json.dumps(error), count
        )


async def _another(connection: Any) -> None:
    await connection.execute(
        "INSERT INTO organizations VALUES ($1, 0) ON CONFLICT DO NOTHING", EMPTY
    )
    await connection.execute(
        "INSERT INTO memberships SELECT $1, id, 'admin', 0 FROM users WHERE operator "
        "ON CONFLICT DO NOTHING",
        EMPTY,
    )
