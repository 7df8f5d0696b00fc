"""Lists of entries: newest first, by label, words and state, and the labels there are.

Why a page costs what it holds, however large the library: sql/library.sql, and decision 28.
"""

from typing import Any

from safelight.infra.db import Database, read
from safelight.infra.states import Phase, listed
from safelight.library.entry import Entry, LibraryFilter, RunStatus
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


@read
async def labels(db: Database, organization: str, limit: int) -> list[str]:
    rows = await db.fetch(_LABELS, organization, limit)
    return [row["label"] for row in rows]
