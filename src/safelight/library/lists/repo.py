"""Lists of entries: newest first, by label, words and state; how many there are of each; and those
that have given names or bytes.

Why a page costs what it holds, however large the library: sql/library.sql, and decision 28.
"""

from collections.abc import Sequence
from typing import Any

from safelight.infra.db import Database, read
from safelight.infra.states import Phase, listed
from safelight.library.entry import Entry, KnownUpload, LibraryFilter, RunStatus, entry_status
from safelight.library.lists.facets import Cell, Facets, MonthCount, facets_of
from safelight.library.repo import entries, entry_of

_UNDER_WAY = listed(RunStatus.in_phase(Phase.UNDER_WAY))


@read
async def page(
    db: Database,
    organization: str,
    wanted: LibraryFilter,
    before: tuple[int, str] | None,
    limit: int,
) -> list[Entry]:
    """Newest first; one row more than asked tells that there is more."""
    values: list[Any] = [organization, *(before or _NEWEST), limit + 1, wanted.label]
    if wanted.query is None and wanted.status in {None, RunStatus.DONE}:
        rows = await db.fetch(_LISTED[wanted.label is not None, wanted.status], *values)
    elif wanted.status is RunStatus.RUNNING:
        rows = await db.fetch(_RUNNING, *values, wanted.query)
    else:
        statuses = wanted.status and _WRITTEN[wanted.status]
        values += [wanted.query, _prefixes(wanted.query), statuses]
        rows = await db.fetch(_FOUND[wanted.status is RunStatus.PENDING], *values)
    return [entry_of(row) for row in rows]


_MOST_PREFIXES = 4
_KEPT_OF_WORD = 100  # characters, in upload_words


def _prefixes(query: str | None) -> list[str]:
    """The words of a query in PostgreSQL's notation that are worth a look: the longest are the
    rarest. Of what these find, all are asked."""
    found = {part[1:-3][:_KEPT_OF_WORD] for part in query.split(" & ")} if query else set()
    return sorted(found, key=lambda word: (-len(word), word))[:_MOST_PREFIXES]


_MOST_COUNTED = 100_000
# How a page is asked for: $1 organization, ($2, $3) the place before which, $4 how many, $5 label.
# Each statement names an order that one index has, whatever the planner believes of the table.
_NEWEST = (2**63 - 1, "")
_BEFORE = "organization = $1 AND (event_time, name) < ($2::bigint, $3::text)"
_ORDER = "ORDER BY event_time DESC, name DESC LIMIT $4"
_WRITTEN = {
    RunStatus.PENDING: [RunStatus.PENDING, RunStatus.RUNNING],
    RunStatus.DONE: [RunStatus.DONE],
    RunStatus.FAILED: [RunStatus.FAILED],
}


def _listed(status: RunStatus | None, *, label: bool) -> str:
    """All, or those of a label; nearly all are done."""
    of_label = "classification_label = $5" if label else "$5::text IS NULL"
    of_status = f"AND classification_status = '{status}'" if status else ""
    return entries(f"SELECT * FROM uploads WHERE {_BEFORE} AND {of_label} {of_status} {_ORDER}")


_LISTED = {
    (label, status): _listed(status, label=label)
    for label in (False, True)
    for status in (None, RunStatus.DONE)
}
# From the queue to the entries: workers have few jobs, however many wait.
_RUNNING = entries(
    f"""
    SELECT entry.* FROM (SELECT DISTINCT name, marker FROM classification_at_work($1)) AS at_work
    CROSS JOIN LATERAL (
        SELECT * FROM uploads WHERE organization = $1 AND name = at_work.name
          AND idempotency_key = at_work.marker OFFSET 0
    ) AS entry
    WHERE (entry.event_time, entry.name) < ($2::bigint, $3::text)
      AND classification_status IN {_UNDER_WAY}
      AND ($5::text IS NULL OR classification_label = $5)
      AND ($6::text IS NULL OR search @@ $6::tsquery)
    ORDER BY entry.event_time DESC, entry.name DESC LIMIT $4
    """
)
_AT_WORK = "ARRAY(SELECT name || '/' || marker FROM classification_at_work($1))"
_FOUND = {
    pending: entries(
        "SELECT * FROM library_found($1, $7, $6::text::tsquery, $5, $8, "
        f"{_AT_WORK if pending else 'NULL'}, $2, $3, $4)"
    )
    for pending in (False, True)
}


# Words have no index in the order of time, so that this many entries after a place are looked
# through for them, and what lies beyond is not found.
_NEARBY = 20_000


@read
async def newer(
    db: Database, organization: str, wanted: LibraryFilter, after: tuple[int, str]
) -> Entry | None:
    """The next newer one that meets the filter."""
    found = await following(db, organization, wanted, after, 1)
    return found[0] if found else None


@read
async def following(
    db: Database, organization: str, wanted: LibraryFilter, after: tuple[int, str], limit: int
) -> list[Entry]:
    """Those right after a place, the newest of them first."""
    values: list[Any] = [organization, *after, limit]
    more = ""
    if wanted.label is not None:
        values.append(wanted.label)
        more += f" AND classification_label = ${len(values)}"
    if wanted.status is not None:
        values.append(_WRITTEN.get(wanted.status, _WRITTEN[RunStatus.PENDING]))
        more += f" AND classification_status = ANY(${len(values)}::text[])"
    rows = (
        "SELECT * FROM uploads WHERE organization = $1 AND "
        f"(event_time, name) > ($2::bigint, $3::text) {more} ORDER BY event_time, name"
    )
    if wanted.query is not None:
        values.append(wanted.query)
        found = f"search @@ ${len(values)}::text::tsquery ORDER BY event_time, name"
        rows = f"SELECT * FROM ({rows} LIMIT {_NEARBY}) AS nearby WHERE {found}"
    return [entry_of(row) for row in await db.fetch(entries(f"{rows} LIMIT $4"), *values)]


# One step through the index per month that has any. $3: minutes that the reader's clock is ahead.
_MONTH = (
    "(extract(epoch FROM date_trunc('month', to_timestamp({at} / 1000.0 + $3 * 60) "
    "AT TIME ZONE 'UTC'))::bigint - $3 * 60) * 1000"
)
_NEWEST_OF = (
    "(SELECT event_time FROM uploads WHERE organization = $1 {label} {before} "
    "ORDER BY event_time DESC LIMIT 1)"
)


def _months(label: str) -> str:
    newest = _NEWEST_OF.format(label=label, before="")
    next_one = _NEWEST_OF.format(label=label, before="AND event_time < months.begins")
    return f"""
        WITH RECURSIVE months AS (
            SELECT newest, {_MONTH.format(at="newest")} AS begins
            FROM (SELECT {newest}) AS newest_of_all (newest) WHERE newest IS NOT NULL
            UNION ALL
            SELECT older.newest, {_MONTH.format(at="older.newest")} FROM months
            CROSS JOIN LATERAL (SELECT {next_one}) AS older (newest) WHERE older.newest IS NOT NULL
        )
        SELECT begins, newest, (SELECT count(*)::integer FROM (
            SELECT FROM uploads WHERE organization = $1 {label}
              AND event_time BETWEEN begins AND newest LIMIT {_MOST_COUNTED}) AS counted) AS entries
        FROM (SELECT * FROM months LIMIT $4) AS shown WHERE $2::text IS NULL OR true
    """


_MONTHS = {True: _months("AND classification_label = $2"), False: _months("")}


@read
async def months(
    db: Database, organization: str, label: str | None, ahead: int, limit: int
) -> list[MonthCount]:
    """Newest first, by a clock that is `ahead` of UTC by so many minutes."""
    rows = await db.fetch(_MONTHS[label is not None], organization, label, ahead, limit)
    return [MonthCount(**row) for row in rows]


# One step through the index per label, instead of a walk over all uploads.
_LABELS = """
WITH RECURSIVE labels AS (
    (SELECT classification_label AS label FROM uploads
     WHERE organization = $1 AND classification_label IS NOT NULL
     ORDER BY classification_label LIMIT 1)
    UNION ALL
    SELECT (SELECT classification_label FROM uploads
            WHERE organization = $1 AND classification_label > labels.label
            ORDER BY classification_label LIMIT 1)
    FROM labels WHERE labels.label IS NOT NULL
)
SELECT label FROM labels WHERE label IS NOT NULL LIMIT $2
"""


# Counting walks an index and stops here: of each label or state, and of what words find.
_MOST_FOUND = 10_000
_MOST_COUNTED_LABELS = 2_000
# Nearly all are done, and those are the ones that have a label. The others are few.
_COUNTED = f"""
WITH here AS (SELECT label FROM ({_LABELS}) AS known),
at_work AS (
    SELECT count(*)::integer AS entries
    FROM (SELECT DISTINCT name, marker FROM classification_at_work($1)) AS busy
    CROSS JOIN LATERAL (
        SELECT FROM uploads WHERE organization = $1 AND name = busy.name
          AND idempotency_key = busy.marker AND classification_status IN {_UNDER_WAY} OFFSET 0
    ) AS entry
)
SELECT label, 'done' AS status, library_count($1, label, NULL, NULL, $3) AS entries FROM here
UNION ALL SELECT NULL, 'failed', library_count($1, NULL, '{{failed}}', NULL, $3)
UNION ALL SELECT NULL, 'running', entries FROM at_work
UNION ALL SELECT NULL, 'pending', greatest(
    library_count($1, NULL, '{{pending,running}}', NULL, $3) - (SELECT entries FROM at_work), 0)
"""
_COUNTED_FOUND = f"""
SELECT classification_label AS label, count(*)::integer AS entries,
       CASE WHEN classification_status NOT IN {_UNDER_WAY} THEN classification_status
            WHEN name || '/' || idempotency_key = ANY (busy) THEN 'running'
            ELSE 'pending' END AS status
FROM library_found($1, $2, $3::text::tsquery, NULL, NULL, NULL, $4, $5, $6)
CROSS JOIN (SELECT {_AT_WORK} AS busy) AS at_work
GROUP BY 1, 3
"""


@read
async def facets(db: Database, organization: str, wanted: LibraryFilter) -> Facets:
    """How many entries have each label and state. Where there are more than are worth counting, at
    least so many."""
    if wanted.query is None:
        rows = await db.fetch(_COUNTED, organization, _MOST_COUNTED_LABELS, _MOST_COUNTED)
        capped = len(rows) >= _MOST_COUNTED_LABELS or any(
            row["entries"] >= _MOST_COUNTED for row in rows
        )
    else:
        values = organization, _prefixes(wanted.query), wanted.query, *_NEWEST, _MOST_FOUND
        rows = await db.fetch(_COUNTED_FOUND, *values)
        capped = sum(row["entries"] for row in rows) >= _MOST_FOUND
    cells = [
        Cell(row["label"], status, row["entries"])
        for row in rows
        if (status := entry_status(row["status"]))
    ]
    return facets_of(cells, wanted, capped=capped)


@read
async def with_checksums(
    db: Database, organization: str, checksums: Sequence[str]
) -> list[KnownUpload]:
    """For each checksum the library has, one entry of it that was not deleted since."""
    rows = await db.fetch(
        """
        SELECT asked.checksum, entry.name, entry.image_id
        FROM unnest($2::text[]) AS asked (checksum) CROSS JOIN LATERAL (
            SELECT name, image_id FROM uploads
            WHERE organization = $1 AND left(checksum, 16) = left(asked.checksum, 16)
              AND checksum = asked.checksum
              AND NOT EXISTS (SELECT FROM object_indexed($1 || '/' || name) WHERE NOT present)
            LIMIT 1
        ) AS entry
        """,
        organization,
        checksums,
    )
    return [KnownUpload(**row) for row in rows]


@read
async def dated(db: Database, organization: str, names: Sequence[str]) -> dict[str, int]:
    """Of names, those that have an entry, and when it was made."""
    rows = await db.fetch(
        "SELECT name, event_time FROM uploads WHERE organization = $1 AND name = ANY($2)",
        organization,
        names,
    )
    return {row["name"]: row["event_time"] for row in rows}
