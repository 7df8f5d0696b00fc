"""History, the spine: a row per change of state, in the same transaction as the change.

`activity_append` (migration 0002) is called as the last statement of a transaction, or inside the
one statement that is the whole transaction; it holds a lock per organization until commit so that
readers can resume from a seq without gaps. Nothing slow may follow it.
"""

from dataclasses import dataclass, field
from typing import Any

from safelight.infra.clock import iso
from safelight.infra.db import Connection, Database

# The public messages and the fields each carries beyond seq, type and at. Types not listed here are
# inner ones: part of a subject's history, and of the feed only when asked for.
MESSAGES: dict[str, tuple[str, ...]] = {
    "upload_ingested": ("imageId", "name", "checksum", "sizeBytes"),
    "upload_stored": ("imageId", "name", "eventTime"),
    "classification_workflow_started": ("name", "idempotencyKey", "run"),
    "classification_workflow_skipped": ("name", "eventTime", "reason"),
    "classification_updated": (
        "name",
        "idempotencyKey",
        "classificationLabel",
        "classificationScore",
        "classifiedAt",
        "classificationModel",
    ),
    "classification_error": ("name", "idempotencyKey", "error", "final"),
    "upload_deleted": ("name", "eventTime"),
    "upload_delete_error": ("name", "error"),
    "approval_requested": ("id", "title", "status"),
    "approval_approved": ("id", "title", "status", "decidedBy", "reason"),
    "approval_rejected": ("id", "title", "status", "decidedBy", "reason"),
    "generation_started": ("id", "kind", "model", "count"),
    "artifact_ready": ("id", "generationId", "contentType"),
    "artifact_failed": ("artifactId", "generationId", "error"),
    "generation_finished": ("id", "status", "artifactCount"),
    "submission_state_changed": ("id", "from", "to"),
}
STORY = ("from", "to", "reason", "beatenBy", "attempt", "error", "actor")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of history to be written. `data` holds story fields and message fields alike."""

    subject: str
    type: str
    data: dict[str, Any] = field(default_factory=dict)
    also: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "also": self.also, "type": self.type, "data": self.data}


@dataclass(frozen=True, slots=True)
class Activity:
    seq: int
    type: str
    at: int
    data: dict[str, Any]

    def as_history(self) -> dict[str, Any]:
        story = {key: self.data[key] for key in STORY if key in self.data}
        return {"seq": self.seq, "at": iso(self.at), "type": self.type, **story}

    def as_message(self) -> dict[str, Any]:
        names = MESSAGES.get(self.type)
        fields = self.data if names is None else {n: self.data[n] for n in names if n in self.data}
        return {"seq": self.seq, "type": self.type, "at": iso(self.at), **fields}


def to_json(entries: list[Entry]) -> list[dict[str, Any]]:
    return [entry.to_json() for entry in entries]


async def append(connection: Connection, organization: str, at: int, *entries: Entry) -> int:
    """Writes history; the last statement of its transaction."""
    seq: int = await connection.fetchval(
        "SELECT activity_append($1, $2, $3)", organization, at, to_json(list(entries))
    )
    return seq


async def of_subject(
    db: Database, organization: str, subject: str, *, after: int, limit: int
) -> list[Activity]:
    """A subject's story, oldest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        """
        SELECT seq, type, at, data FROM (
            (SELECT seq, type, at, data FROM activity
             WHERE organization = $1 AND subject = $2 AND seq > $3 ORDER BY seq LIMIT $4)
            UNION ALL
            (SELECT seq, type, at, data FROM activity
             WHERE organization = $1 AND also = $2 AND seq > $3 ORDER BY seq LIMIT $4)
        ) story ORDER BY seq LIMIT $4
        """,
        organization,
        subject,
        after,
        limit + 1,
    )
    return [Activity(row["seq"], row["type"], row["at"], row["data"]) for row in rows]


async def feed(
    db: Database, organization: str, *, after: int, limit: int, types: list[str] | None
) -> list[Activity]:
    """The organization's messages after a seq, oldest first. `types` None: inner ones as well."""
    rows = await db.fetch(
        """
        SELECT seq, type, at, data FROM activity
        WHERE organization = $1 AND seq > $2 AND ($4::text[] IS NULL OR type = ANY($4))
        ORDER BY seq LIMIT $3
        """,
        organization,
        after,
        limit,
        types,
    )
    return [Activity(row["seq"], row["type"], row["at"], row["data"]) for row in rows]


async def bounds(db: Database, organization: str) -> tuple[int, int]:
    """Where the feed begins (what lies at or before it was cut) and its newest seq."""
    row = await db.fetchrow(
        """
        SELECT coalesce((SELECT seq FROM activity_floor WHERE organization = $1), 0) AS floor,
               coalesce((SELECT seq FROM activity WHERE organization = $1
                         ORDER BY seq DESC LIMIT 1), 0) AS newest
        """,
        organization,
    )
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return row["floor"], max(row["newest"], row["floor"])


async def cut_feed(db: Database, before_ms: int) -> None:
    """Moves each organization's floor past what is older; the rows stay for their subjects."""
    await db.execute(
        """
        INSERT INTO activity_floor (organization, seq)
        SELECT organization, max(seq) FROM activity WHERE at < $1 GROUP BY organization
        ON CONFLICT (organization) DO UPDATE SET seq = greatest(activity_floor.seq, excluded.seq)
        """,
        before_ms,
    )
