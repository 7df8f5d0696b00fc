"""Organizations can be spread over several databases without changing a statement: each says whose rows
it is about, or is meant for a whole database (docs/scaling.md)."""

import pytest

from gates import cells, sql
from gates.sources import clean
from points import sources

# What, besides the organization, names rows of one organization: ids that are handed out once, and keys
# that begin with it. Whoever has one has it from a row, a job or an address of the same database.
KEYS = {
    "artifacts": "id|generation_id",
    "approvals": "id",
    "blocklist": "id",
    "delete_intents": "image_id",
    "deleted_artifacts": "id",
    "generations": "id",
    "generations_inflight": "id|generation_id",
    "images": "id",
    "invitations": "digest",
    "jobs": "id|p_id|key|p_key|job_id",
    "large_thumbnails": "key",
    "object_events": "id",
    "objects": "key",
    "reclassifications": "id",
    "submissions": "id",
    "tags": "target_id",
    "tokens": "id|digest",
}
_PEOPLE = (
    "a person may belong to several organizations; in each database a person is asked for alone"
)
_CLAIMS = "a worker works for one database, and takes turns among the organizations that are in it"
_UPKEEP = "keeps house for one database, whatever is in it"
_OPERATOR = "an operator's list or count of one database; behind a router they are put together"
_WRITTEN = "the row names it: the columns come from the record, or the row from who calls"
WHOLE: dict[str, str] = {
    "accounts/invitations/repo.py of_user invitations": _PEOPLE,
    "accounts/invitations/repo.py remove_all_of invitations": _PEOPLE,
    "accounts/repo.py _USER memberships": _PEOPLE,
    "accounts/repo.py revoke_user tokens": _PEOPLE,
    "approvals/repo.py due approvals": _UPKEEP,
    "approvals/repo.py page approvals": "its first condition is the organization",
    "classification/reclassify/repo.py all_running reclassifications": _OPERATOR,
    "classification/similar/repo.py known twins_known": _UPKEEP,
    "generations/repo.py purge generations_inflight": _UPKEEP,
    "infra/queue/repo.py _DEAD jobs": "the head of two: an organization's letters, and the operator's",
    "infra/queue/repo.py give_back jobs": _CLAIMS,
    "infra/queue/repo.py status jobs": _OPERATOR,
    "infra/queue/watched.py waits_for jobs": _OPERATOR,
    "infra/queue/watched.py workers jobs": _OPERATOR,
    "infra/feed.py newest activity": _UPKEEP,
    "ingest/repo.py knows_any images": "whether a database is new",
    "library/repo.py purge_tombstones tombstones": _UPKEEP,
    "library/retention/repo.py limits retention": _UPKEEP,
    "library/thumbnails/repo.py ended large_thumbnails": _UPKEEP,
    "objects/repo.py condemned_in objects": "a blob may be several organizations'; files are a database's",
    "objects/repo.py in_bucket objects": "whether a bucket is that of its database",
    "objects/repo.py purge_deleted objects": _UPKEEP,
    "quotas/repo.py fold quota_changes": _UPKEEP,
    "sql/library.sql library_mark uploads": _WRITTEN,
    "sql/objects.sql blobs_condemn objects": "a blob may be several organizations'; files are a database's",
    "sql/objects.sql object_share objects": "of our own keys, which belong to no organization",
    "sql/queue.sql job_attend jobs": _CLAIMS,
    "sql/queue.sql job_enrol jobs": _CLAIMS,
    "sql/queue.sql job_mend_times jobs": _CLAIMS,
    "sql/queue.sql job_take jobs": _CLAIMS,
    "sql/queue.sql job_take_guest jobs": _CLAIMS,
    "sql/queue.sql job_take_over jobs": _CLAIMS,
    "sql/queue.sql job_take_suspect jobs": _CLAIMS,
    "sql/queue.sql jobs_by_node jobs": _OPERATOR,
    "sql/queue.sql jobs_owner_of_next jobs": "a lost machine's jobs, one organization after the other",
    "submissions/repo.py add submissions": _WRITTEN,
    "testing/hands.py Hands jobs": "of tests",
}


def test_every_statement_says_whose_rows_it_is_about() -> None:
    statements = [*cells.in_functions(sql.sql_texts()), *cells.in_python(sources())]
    tables = cells.of_organizations(sql.baseline())
    assert {"uploads", "activity", "jobs", "images"} <= tables
    assert len(statements) > 300, "the statements are found"
    clean(cells.beyond(cells.unbound(statements, tables, KEYS), WHOLE))


def test_no_table_is_named_by_a_variable_unseen() -> None:
    """The gate reads texts; whoever puts a table's name in at run time is listed here."""
    statements = cells.in_python(sources())
    found = {each.place for each in statements if cells.names_a_variable(each.text)}
    assert found == {
        "accounts/repo.py revoke_user",  # what is a person's, by the person
        "accounts/sign_in/repo.py purge_expired",  # what has had its time, in one database
    }


def python(statement: str) -> list[str]:
    statements = cells.in_python({"repo.py": f"def f():\n    return {statement!r}\n"})
    return cells.unbound(statements, ["uploads", "images"], {"images": "id"})


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM uploads",
        "SELECT organization, name FROM uploads WHERE name = $1",
        "SELECT organization FROM uploads ORDER BY organization",
        "UPDATE uploads SET organization = $1 WHERE name = $2",
        "DELETE FROM uploads WHERE name = $1",
        "INSERT INTO uploads (name) VALUES ($1)",
        "SELECT FROM other WHERE organization = $1 AND EXISTS (SELECT FROM uploads WHERE name = $2)",
        "SELECT name FROM uploads WHERE organization = $1 UNION ALL SELECT name FROM uploads",
        "WITH gone AS (DELETE FROM uploads WHERE name = $1) SELECT FROM x WHERE organization = $1",
        "SELECT * FROM (SELECT * FROM uploads) AS u WHERE organization = $1",
    ],
)
def test_the_gate_sees_what_is_not_bound(statement: str) -> None:
    assert python(statement) == ["repo.py f uploads"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM uploads WHERE organization = $1 AND name = $2",
        "SELECT * FROM uploads u WHERE u.organization = $1",
        "SELECT * FROM uploads WHERE (organization, name) > ($1, $2)",
        "SELECT * FROM x JOIN uploads USING (organization, name)",
        "SELECT * FROM x JOIN uploads AS u ON u.organization = x.organization",
        "INSERT INTO uploads (organization, name) VALUES ($1, $2)",
        "UPDATE images SET status = 'STORED' WHERE id = $1",
        "SELECT * FROM images WHERE id = ANY ($1)",
        "DELETE FROM images WHERE id IN (SELECT id FROM images WHERE organization = $1)",
    ],
)
def test_the_gate_lets_the_rest_pass(statement: str) -> None:
    assert python(statement) == []


def test_the_gate_reads_functions_and_constants() -> None:
    head = "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE sql AS $$"
    function = cells.in_functions({"x": f"{head} SELECT FROM uploads; SELECT 1 $$;"})
    assert cells.unbound(function, ["uploads"], {}) == ["sql/x.sql f uploads"]
    module = (
        "_FROM = 'SELECT * FROM uploads'\ndef f():\n    return f'{_FROM} WHERE organization = $1'"
    )
    found = cells.unbound(cells.in_python({"r.py": module}), ["uploads"], {})
    assert found == ["r.py _FROM uploads"], "the head alone, and not what is made of it"


def test_an_explanation_that_nothing_needs_is_reported() -> None:
    assert cells.beyond(["a x"], {"a x": "why"}) == []
    assert cells.beyond(["b x"], {"a x": "why"}) == ["b x", "a x needs no explanation"]
