"""A library of any size, made by a few statements: rows as the product leaves them, in every table
that an image passes. A million entries take minutes."""

from dataclasses import dataclass
from importlib import resources
from typing import Any

BEGUN = 1_700_000_000_000  # epoch ms of the first entry
EVERY_MS = 2_000
_TOPICS = (
    "wedding", "beach", "garden", "office", "museum", "harbour", "mountain", "market", "birthday",
    "concert", "forest", "kitchen", "airport", "castle", "festival", "lake", "snow", "sunset",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Many:
    """What was made, for those who look for something in it."""

    organization: str
    count: int

    def time(self, number: int) -> int:
        return BEGUN + number * EVERY_MS

    @property
    def end(self) -> int:
        """After the newest."""
        return self.time(self.count + 1)


async def fill(connection: Any, organization: str, count: int, *, of_each: int = 1000) -> Many:
    """Of each thousand, or as many as is said, one waits for a label and one has failed, as an image
    and as an entry. The others have one of a thousand labels, the first of which are the most
    frequent by far."""
    await connection.execute("SET session_replication_role = replica")  # no triggers, no references
    await connection.execute(
        "INSERT INTO organizations VALUES ($1, 0) ON CONFLICT DO NOTHING", organization
    )
    await connection.execute(_MANY)
    await connection.execute(_ENTRIES, organization, of_each, count, labels(), list(_TOPICS))
    for statement in _STATEMENTS:
        await connection.execute(statement)
    await connection.execute("DROP TABLE many")
    await connection.execute("SET session_replication_role = origin")
    return Many(organization, count)


async def settle(connection: Any, *tables: str) -> None:
    """As after a night: the planner knows what was written, and that everybody sees it."""
    await connection.execute("SET synchronous_commit = on")
    await connection.execute("CHECKPOINT")  # what may still be lost is not called visible to all
    for table in tables or _TABLES:
        await connection.execute(f"VACUUM ANALYZE {table}")


async def wait(connection: Any, kind: str, organizations: int, count: int) -> None:
    """Jobs that are ready, of `organizations` named org-1 and up, in turn."""
    await connection.execute(
        """
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at)
        SELECT $1, 'org-' || (1 + n % $2), '', jsonb_build_object('name', 'n' || n), $1 || n, 0,
               'queued', now() - make_interval(secs => n % 1000)
        FROM generate_series(1, $3::integer) AS n
        """,
        kind,
        organizations,
        count,
    )


def labels() -> list[str]:
    text = (resources.files("safelight.classification") / "data/labels.txt").read_text()
    return [line.split(",")[0].upper() for line in text.splitlines()]


# One row per entry, from which every other is made. `dice` are numbers that look drawn.
_MANY = """
CREATE TEMP TABLE many (n integer, organization text, name text, at bigint, marker text, image text,
                        sha256 text, status text, came text, label text, search tsvector)
"""
_ENTRIES = f"""
INSERT INTO many
SELECT n, $1::text AS organization, made.name, {BEGUN} + n * {EVERY_MS}::bigint AS at,
       gen_random_uuid()::text AS marker, 'img_' || md5('image' || $1::text || n) AS image,
       encode(sha256(('bytes' || $1::text || n)::bytea), 'hex') AS sha256, made.status, made.came,
       CASE made.status WHEN 'done' THEN made.label END AS label,
       array_to_tsvector(ARRAY(
           SELECT DISTINCT word FROM regexp_split_to_table(lower(
               CASE made.status WHEN 'done' THEN concat(made.name, ' ', made.label)
                                ELSE made.name END), '[^a-z0-9]+') AS word
           WHERE word <> '')) AS search
FROM generate_series(1, $3::integer) AS n
CROSS JOIN LATERAL (SELECT abs(hashint4(n)::bigint) AS one, abs(hashint4(n + 77777777)::bigint) AS two) AS dice
CROSS JOIN LATERAL (SELECT
    CASE WHEN one % 100 < 60 THEN
             to_char(timestamp '2023-11-14' + n * interval '2 seconds', '"IMG_"YYYYMMDD"_"HH24MISS')
             || '.jpg'
         WHEN one % 100 < 85 THEN 'DSC' || lpad(n::text, 8, '0') || '.JPG'
         ELSE ($5::text[])[1 + (power(two % 1000 / 1000.0, 2) * 18)::integer % 18]
              || ' ' || n || '.png' END AS name,
    CASE n % $2::integer WHEN 5 THEN 'pending' WHEN 6 THEN 'failed' ELSE 'done' END AS status,
    CASE n % $2 WHEN 7 THEN 'FAILED' WHEN 8 THEN 'INGESTED' ELSE 'STORED' END AS came,
    ($4::text[])[1 + (power(two % 100003 / 100003.0, 3) * 1000)::integer % 1000] AS label) AS made
"""
_IMAGES = """
INSERT INTO images (id, organization, name, idempotency_key, status, temp_path, checksum, mime_type,
                    width, height, size_bytes, created_at, updated_at, ordinal)
SELECT image, organization, name, marker::uuid, came, 'uploads/' || image, sha256, 'image/jpeg', 1600, 1200, 100000 + n % 900000, at, at + 50, n
FROM many
"""
_BLOBS = """
INSERT INTO blobs (sha256, size) SELECT sha256, 100000 + n % 900000 FROM many ON CONFLICT DO NOTHING
"""
_OBJECTS = """
INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata, etag,
                     event_time)
SELECT organization || '/' || name, organization, name, true, sha256, 100000 + n % 900000,
       'image/jpeg', jsonb_build_object('organizationId', organization, 'name', name,
           'idempotencyKey', marker, 'imageId', image, 'width', '1600', 'height', '1200'),
       sha256, at
FROM many
"""
_EVENTS = """
INSERT INTO object_events (source, action, key, organization, event_time, sequencer, etag, size,
                           metadata, received_at, delivered_at)
SELECT 'safelight', 'created', organization || '/' || name, organization, at,
       lpad(to_hex(n), 16, '0'), sha256, 100000 + n % 900000, jsonb_build_object('imageId', image),
       at, at + 5
FROM many
"""
_UPLOADS = """
INSERT INTO uploads (organization, name, event_time, sequencer, source, e_tag, idempotency_key,
                     image_id, mime_type, width, height, size_bytes, checksum, run,
                     classification_status, classification_label, classification_score,
                     classification_model, classified_at, search)
SELECT organization, name, at, lpad(to_hex(n), 16, '0'), 'safelight', sha256, marker, image,
       'image/jpeg', 1600, 1200, 100000 + n % 900000, sha256, 1, status, label,
       CASE WHEN label IS NOT NULL THEN 0.9 END, CASE WHEN label IS NOT NULL THEN 'lite0' END,
       CASE WHEN label IS NOT NULL THEN at + 60 END, search
FROM many
"""
_WORDS = """
INSERT INTO upload_words (organization, word, event_time, name)
SELECT organization, word, at, name FROM many, unnest(tsvector_to_array(search)) AS word
"""
_RUNS = """
INSERT INTO classification_runs (organization, name, idempotency_key, run, status, labels, started_at,
                                 finished_at)
SELECT organization, name, marker, 1, status,
       CASE WHEN label IS NOT NULL THEN jsonb_build_array(jsonb_build_object('label', label)) END,
       at, CASE WHEN status <> 'pending' THEN at + 60 END
FROM many
"""
# Seven lines for each.
_ACTIVITY = """
INSERT INTO activity (seq, organization, subject, also, type, at, data)
SELECT nextval('activity_seq'), organization,
       CASE WHEN step <= 3 THEN 'image:' || image ELSE 'upload:' || name END,
       CASE WHEN step <= 3 THEN 'upload:' || name END,
       CASE step WHEN 1 THEN 'image_uploaded' WHEN 2 THEN 'upload_ingested'
                 WHEN 3 THEN CASE WHEN came = 'FAILED' THEN 'upload_failed' ELSE 'upload_stored' END
                 WHEN 4 THEN 'event_received' WHEN 5 THEN 'classification_workflow_started'
                 WHEN 6 THEN 'run_attempt' ELSE 'classification_updated' END,
       at + step, jsonb_build_object('name', name, 'idempotencyKey', marker, 'step', step)
FROM many CROSS JOIN generate_series(1, 7) AS step ORDER BY n, step
"""
_STATEMENTS = (_IMAGES, _BLOBS, _OBJECTS, _EVENTS, _UPLOADS, _WORDS, _RUNS, _ACTIVITY)
_TABLES = (
    "images", "blobs", "objects", "object_events", "uploads", "upload_words",
    "classification_runs", "activity", "jobs",
)  # fmt: skip
