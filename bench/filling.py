"""A library of any size, made by a few statements: rows as the pipeline leaves them.

Secondary indexes are dropped and made anew, which is several times faster than keeping them while a
million rows come in. What is named is what a row must have; columns that come later have defaults.
"""

import time

import asyncpg

ORGANIZATION = "default"
LABELS = 100
BEGAN = 1_700_000_000_000  # of the first entry, in milliseconds; each is a second later
KIND = "bench.work"
_SHA = "0" * 64
_DRAWN = 15  # there is nothing to draw: their bytes are nobody's
_TABLES = (
    "uploads",
    "upload_words",
    "objects",
    "images",
    "classification_runs",
    "activity",
    "jobs",
)
_INDEXES = """
    SELECT format('%I', i.relname) AS name,
           replace(pg_get_indexdef(x.indexrelid), ' ON ONLY ', ' ON ') AS definition
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
    JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relname = ANY($1) AND t.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = x.indexrelid)
"""
# Words: one that every entry has, one of every tenth, one of every hundredth, and its own number.
_ROWS = f"""
    SELECT n, 'photo-' || lpad(n::text, 8, '0') || '.jpg' AS name,
           {BEGAN} + n * 1000 AS at, 'label' || (n % {LABELS}) AS label,
           n % 100 = 7 AS failed, md5(n::text)::uuid AS marker,
           'bench' || lpad(n::text, 20, '0') AS image,
           ARRAY['photo', 'jpg', lpad(n::text, 8, '0'), 'label' || (n % {LABELS})]
               || CASE WHEN n % 10 = 3 THEN ARRAY['tenth'] ELSE '{{}}' END
               || CASE WHEN n % 100 = 3 THEN ARRAY['hundredth'] ELSE '{{}}' END AS words
    FROM generate_series($1::bigint, $2::bigint) AS n
"""
_FILL = (
    f"""
    INSERT INTO uploads (organization, name, event_time, source, e_tag, idempotency_key, image_id,
        mime_type, width, height, size_bytes, run, classification_status, classification_label,
        classification_score, classification_model, classified_at, search, drawn)
    SELECT '{ORGANIZATION}', name, at, 'store', '{_SHA}', marker::text, image, 'image/jpeg',
        1414, 1414, 480000, 1, CASE WHEN failed THEN 'failed' ELSE 'done' END,
        CASE WHEN NOT failed THEN label END, CASE WHEN NOT failed THEN 0.9 END, 'lite0', at,
        array_to_tsvector(words), {_DRAWN}
    FROM ({_ROWS}) AS rows
    """,
    f"""
    INSERT INTO upload_words (organization, word, event_time, name)
    SELECT '{ORGANIZATION}', word, at, name FROM ({_ROWS}) AS rows, unnest(words) AS word
    """,
    f"""
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata, etag,
        event_time)
    SELECT '{ORGANIZATION}/' || name, '{ORGANIZATION}', name, true, '{_SHA}', 480000,
        'image/jpeg', jsonb_build_object('imageId', image), '{_SHA}', at
    FROM ({_ROWS}) AS rows
    """,
    f"""
    INSERT INTO images (id, organization, name, idempotency_key, status, temp_path, checksum,
        mime_type, width, height, size_bytes, created_at, updated_at, ordinal, node)
    SELECT image, '{ORGANIZATION}', name, marker, 'STORED', '', '{_SHA}', 'image/jpeg', 1414, 1414,
        480000, at, at, nextval('images_ordinal'), NULL
    FROM ({_ROWS}) AS rows
    """,
    f"""
    INSERT INTO classification_runs (organization, name, idempotency_key, run, status, started_at,
        finished_at)
    SELECT '{ORGANIZATION}', name, marker::text, 1, CASE WHEN failed THEN 'failed' ELSE 'done' END,
        at, at
    FROM ({_ROWS}) AS rows
    """,
    f"""
    INSERT INTO activity (seq, organization, subject, type, at, data)
    SELECT nextval('activity_seq'), '{ORGANIZATION}', 'upload:' || name, type, at,
        jsonb_build_object('name', name, 'label', label, 'score', 0.9)
    FROM ({_ROWS}) AS rows,
         unnest(ARRAY['upload_ingested', 'classification_updated']) AS type
    """,
    f"""
    INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at)
    SELECT '{KIND}', 'org' || (n % 10), '', '{{}}', 0, 'queued', to_timestamp(at / 1000)
    FROM ({_ROWS}) AS rows
    """,
)


async def fill(url: str, already: int, rows: int) -> float:
    """Up to so many entries in all; how many seconds it took."""
    began = time.monotonic()
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        for setting in (
            "session_replication_role = replica",  # what is referred to is there
            "synchronous_commit = off",
            "maintenance_work_mem = '256MB'",
            "statement_timeout = 0",
        ):
            await connection.execute(f"SET {setting}")
        await connection.execute(
            "INSERT INTO blobs (sha256, size) VALUES ($1, 480000) ON CONFLICT DO NOTHING", _SHA
        )
        indexes = await connection.fetch(_INDEXES, list(_TABLES))
        for index in indexes:
            await connection.execute(f"DROP INDEX {index['name']}")
        for statement in _FILL:
            await connection.execute(statement, already + 1, rows)
        for index in indexes:
            await connection.execute(index["definition"])
        for table in _TABLES:
            await connection.execute(f"VACUUM (ANALYZE) {table}")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    return time.monotonic() - began
