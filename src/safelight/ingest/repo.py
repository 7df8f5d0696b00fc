"""The images table. One statement records uploads: rows, history and offload jobs, or nothing."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from safelight.errors import SafelightError, Unavailable
from safelight.infra import activity, standby
from safelight.infra.activity import to_json
from safelight.infra.db import LOST, Connection, Database, read, write
from safelight.infra.history import Line
from safelight.infra.injected import ImageId
from safelight.infra.queue.jobs import Job
from safelight.infra.states import Phase, listed
from safelight.infra.storable import columns
from safelight.ingest.contract import DatabaseError, JobEnqueueError
from safelight.ingest.lifecycle import (
    MACHINE,
    Image,
    ImageStatus,
    OffloadOutcome,
    OffloadResult,
    OffloadWait,
    Recordable,
    Recording,
)
from safelight.objects.keys import around_number
from safelight.objects.reconcile import Standing
from safelight.objects.repo import raise_retake
from safelight.objects.store import Landed
from safelight.quotas.repo import refused

Lessee = tuple[str | None, timedelta | None]  # who has a job from the start, and for how long
NOBODY: Lessee = (None, None)
_TERMINATE_MS = 5000
_MOST_DIGITS = 9


class ConnectionLost(Unavailable):
    """The connection went away during COMMIT."""

    def __init__(self, backend: int) -> None:
        super().__init__()
        self.backend = backend


# The machine's moves, as the statements that make them are handed them.
_FROM_UPLOADED = MACHINE.moves[ImageStatus.UPLOADED]
STORED_FROM = MACHINE.before(ImageStatus.STORED)
_FAILED_FROM = MACHINE.before(ImageStatus.FAILED)


@write
async def record_uploads(
    connection: Connection,
    uploads: Sequence[Recordable],
    node: str,
    now: int,
    lease: timedelta | None = None,
) -> list[int]:
    """Of one organization. Answers their jobs."""
    rows = [
        {"image": _new(each.image), "lines": to_json(each.lines), "leased": bool(each.lessee)}
        for each in uploads
    ]
    organization = uploads[0].image.organization
    lessee = next((each.lessee for each in uploads if each.lessee), None), lease
    statement = "SELECT images_recorded($1, $2, $3, $4, $5, $6)"
    found = await _record(connection, statement, organization, rows, node, now, *lessee)
    return [job for (job,) in found]


@write
async def record_upload_unless_taken(
    connection: Connection, image: Image, node: str, lines: Sequence[Line], lessee: Lessee = NOBODY
) -> tuple[Recording, int | None]:
    """Its job is leased to `lessee` if there is one."""
    statement = "SELECT * FROM image_recorded_unless_taken($1, $2, $3, $4, $5)"
    values = _new(image), node, to_json(lines), *lessee
    ((outcome, job),) = await _record(connection, statement, *values)
    return Recording(outcome), job


def _new(image: Image) -> dict[str, Any]:
    if image.status not in _FROM_UPLOADED:
        MACHINE.check(ImageStatus.UPLOADED, image.status)
    return columns(image)


async def _record(
    connection: Connection, statement: str, *values: object
) -> "list[asyncpg.Record]":
    """Once sent, only an error in the server's own words is a no; any other end says nothing."""
    backend = connection.get_server_pid()
    try:
        found = await connection.fetch(statement, *values)
        standby.confirm(connection)
        return found
    except Exception as error:
        if isinstance(error, asyncpg.PostgresError) and not isinstance(error, LOST):
            raise _refused(error) from error
        raise ConnectionLost(backend) from error


def _refused(error: asyncpg.PostgresError) -> SafelightError:
    if used_up := refused(error):
        return used_up
    context = getattr(error, "context", None) or ""
    return JobEnqueueError() if "jobs_enqueue" in context else DatabaseError()


@read
async def was_recorded(db: Database, image_id: ImageId, backend: int) -> bool | None:
    """Looks again after a statement whose answer was lost. The old backend is ended first: while it
    lives, it may still commit after we have looked. None: it does not die, so nothing is known.
    Where commits wait for a standby, its end cut that wait short, and the row can be seen though
    only this server has it. To lock the row is a commit too, and waits for both."""
    gone = await db.fetchval(
        "SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity "
        "WHERE pid = $1 AND usename = current_user AND pid <> pg_backend_pid()",
        backend,
        _TERMINATE_MS,
    )
    if gone is False:
        return None
    look = "SELECT true FROM images WHERE id = $1 FOR KEY SHARE"
    return bool(await db.fetchval(look, image_id))


@read
async def free_name(db: Database, organization: str, name: str, *, numbered: bool) -> str | None:
    """That name if no object and no upload on its way has it; else one with a number, or None.
    Without a lock: whoever wants it asks for it in the statement that takes it."""
    around = [around_number(name, digits) for digits in range(1, _MOST_DIGITS + 1)]
    before = [before for before, _ in around] if numbered else None
    found: str | None = await db.fetchval(
        "SELECT name_free($1, $2, $3, $4)", organization, name, before, around[0][1]
    )
    return found


@read
async def find(db: Database, image_id: str) -> Image | None:
    row = await db.fetchrow("SELECT * FROM images WHERE id = $1", image_id)
    return None if row is None else image_of(row)


@read
async def newest_of(db: Database, organization: str, name: str) -> Image | None:
    """The last upload that came under that name."""
    row = await db.fetchrow(
        "SELECT * FROM images WHERE organization = $1 AND name = $2 "
        "ORDER BY coalesce(ordinal, 0) DESC LIMIT 1",
        organization,
        name,
    )
    return None if row is None else image_of(row)


@read
async def is_under_way(db: Database, organization: str, name: str) -> bool:
    """Whether an image is to become the object of that name."""
    return bool(
        await db.fetchval(
            f"""
            SELECT EXISTS (
                SELECT FROM images WHERE organization = $1 AND name = $2
                  AND status IN {listed(ImageStatus.in_phase(Phase.UNDER_WAY))}
                  AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = images.id))
            """,
            organization,
            name,
        )
    )


@read
async def statuses(db: Database, ids: list[ImageId]) -> dict[ImageId, ImageStatus]:
    rows = await db.fetch("SELECT id, status FROM images WHERE id = ANY($1)", ids)
    return {ImageId(row["id"]): ImageStatus(row["status"]) for row in rows}


@read
async def failures(
    db: Database, organization: str, images: Sequence[Image]
) -> dict[ImageId, dict[str, Any]]:
    """Why those of them that FAILED did: the error their last such move was recorded with."""
    subjects = {f"image:{i.id}": i.id for i in images if i.status is ImageStatus.FAILED}
    if not subjects:
        return {}
    moves = await activity.last_moves(db, organization, list(subjects), ImageStatus.FAILED)
    return {
        subjects[subject]: move.data["error"]
        for subject, move in moves.items()
        if "error" in move.data
    }


@read
async def waits(db: Database, images: Sequence[Image]) -> dict[ImageId, OffloadWait]:
    """Of those that are on their way to storage: when it is tried again, where something kept it
    from that. As the queue knows it, so that an upload pays nothing for it."""
    waiting = [image.id for image in images if image.status is ImageStatus.INGESTED]
    if not waiting:
        return {}
    rows = await db.fetch(
        "SELECT id, next_at, error FROM unnest($1::text[]) AS id "
        "CROSS JOIN LATERAL job_standing('ingest.offload', id) WHERE next_at IS NOT NULL",
        waiting,
    )
    return {row["id"]: OffloadWait(row["next_at"], row["error"]) for row in rows}


@read
async def page(
    db: Database,
    organization: str,
    status: ImageStatus | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[Image]:
    """Newest first; one row more than asked tells that there is more. The state is written out, so
    that the plan is made for it: few images are in most of them."""
    of_status = f"AND status = '{status}'" if status else ""
    rows = await db.fetch(
        f"""
        SELECT * FROM images WHERE organization = $1 {of_status}
          AND (created_at, id) < ($2::bigint, $3::text)
        ORDER BY created_at DESC, id DESC LIMIT $4
        """,
        organization,
        *(before or (2**63 - 1, "")),
        limit + 1,
    )
    return [image_of(row) for row in rows]


@write
async def store(
    db: Database,
    image: Image,
    landed: Landed,
    node: str | None,
    metadata: Mapping[str, str],
    lines: Mapping[str, Line],
    now: int,
    job: Job[Any],
    lessee: Lessee,
) -> OffloadResult:
    """The last step of an offload, all of it in one statement. `lines` by how it may end; `node` is
    where the file is that a bucket may need again."""
    try:
        row = await db.fetchrow(
            "SELECT * FROM image_stored($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            image.id,
            image.organization,
            image.name,
            STORED_FROM,
            columns(landed) | {"node": node},
            dict(metadata),
            dict(zip(lines, to_json(lines.values()), strict=True)),
            now,
            job.id,
            job.claim,
            *lessee,
        )
    except asyncpg.PostgresError as error:
        raise_retake(error)
        raise
    assert row is not None  # noqa: S101 - a function's row
    return OffloadResult(
        OffloadOutcome(row["outcome"]),
        landed.etag,
        row["event_id"],
        row["event_time"],
        row["job_id"],
    )


@write
async def fail(db: Database, image: Image, line: Line, now: int, job: Job[Any]) -> OffloadOutcome:
    outcome = await db.fetchval(
        "SELECT image_failed($1, $2, $3, $4, $5, $6, $7)",
        image.id,
        image.organization,
        _FAILED_FROM,
        to_json([line]),
        now,
        job.id,
        job.claim,
    )
    return OffloadOutcome(outcome)


# Files that a bucket may need again


@read
async def standings(db: Database, images: Sequence[str]) -> dict[str, Standing]:
    rows = await db.fetch(
        f"""
        SELECT id, status IN {listed(ImageStatus.in_phase(Phase.UNDER_WAY))} AS under_way,
               node IS NOT NULL AS has_file, status = '{ImageStatus.FAILED}' AS failed
        FROM images WHERE id = ANY($1)
        """,
        images,
    )
    return {row.pop("id"): Standing(**row) for row in map(dict, rows)}


@write
async def put_back(db: Database, image: str) -> None:
    await db.execute("SELECT image_put_back($1)", image)


@write
async def forget_file(db: Database, image: ImageId) -> None:
    """There is nothing any more to put it back from."""
    await db.execute("UPDATE images SET node = NULL WHERE id = $1", image)


@read
async def is_object(db: Database, image: Image) -> bool:
    """Whether the index says that it is what its name holds."""
    return bool(
        await db.fetchval(
            "SELECT true FROM object_indexed($1) WHERE present AND metadata ->> 'imageId' = $2",
            f"{image.organization}/{image.name}",
            image.id,
        )
    )


@read
async def unsettled(db: Database, images: list[ImageId]) -> set[ImageId]:
    """Those whose file has to stay: a write of their name is not known to have ended."""
    rows = await db.fetch("SELECT * FROM images_unsettled($1)", images)
    return {ImageId(row[0]) for row in rows}


# On their way, for the gallery

_ON_THEIR_WAY = """
WITH waiting AS MATERIALIZED ({candidates}),
candidate AS MATERIALIZED (
    SELECT * FROM waiting ORDER BY coalesce(ordinal, 0) DESC, created_at DESC, id DESC LIMIT $3
)
SELECT * FROM candidate
WHERE (status <> 'FAILED' OR created_at >= $2)
  AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = candidate.id)
  AND NOT EXISTS (SELECT FROM images AS newer
                  WHERE newer.organization = $1 AND newer.name = candidate.name
                    AND (coalesce(newer.ordinal, 0), newer.created_at, newer.id)
                      > (coalesce(candidate.ordinal, 0), candidate.created_at, candidate.id))
ORDER BY coalesce(ordinal, 0) DESC, created_at DESC, id DESC
"""
# By state: few images are in these however many there are.
_ALL = _ON_THEIR_WAY.format(
    candidates="SELECT * FROM images WHERE organization = $1 AND status IN ('INGESTED', 'FAILED')"
)
# By name there is time to look for those, too, that are stored and whose event is not read yet.
_NAMED = _ON_THEIR_WAY.format(
    candidates="""
    SELECT * FROM images WHERE organization = $1 AND name = ANY($4)
       AND (status IN ('INGESTED', 'FAILED')
            OR EXISTS (SELECT FROM object_indexed($1 || '/' || images.name) AS object
                       WHERE object.present AND object.metadata ->> 'imageId' = images.id))
    """
)


@read
async def on_their_way(
    db: Database, organization: str, names: list[str] | None, *, failed_since: int, limit: int
) -> list[Image]:
    """Newest first: images that are received but not yet an entry, or failed on the way to it; the
    library knows which of them it has. What was deleted, or sent again under the same name, is left
    out. `limit` is how many are looked at."""
    values = (organization, failed_since, limit)
    rows = await (db.fetch(_ALL, *values) if names is None else db.fetch(_NAMED, *values, names))
    return [image_of(row) for row in rows]


def image_of(row: asyncpg.Record) -> Image:
    values = {key: row[key] for key in Image.__dataclass_fields__}
    values["idempotency_key"] = str(values["idempotency_key"])
    values["status"] = ImageStatus(values["status"])
    return Image(**values)


@read
async def knows_any(db: Database) -> bool:
    return bool(await db.fetchval("SELECT EXISTS (SELECT FROM images)"))
