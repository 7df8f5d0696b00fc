"""Whose tables are whose, and what only one place may do."""

from gates import ownership, sql
from gates.package import everything
from gates.sources import clean
from points import sources
from safelight.infra.queue.jobs import JobKind

# `file table`: why one statement must name somebody else's table.
EXCEPTIONS: dict[str, str] = {
    "sql/library.sql objects": "the row type of what object_indexed, of objects, answers",
    "testing/hands.py jobs": "leases and due times are on the database's clock, moved by hand here",
}
# `file repo.function`: why a feature makes a change that is another's.
_LAST_STEP = "the last step of a put or delete commits with the rows of whoever asked for it"
FOREIGN_WRITES: dict[str, str] = {
    "admin/services.py library.repo.purge_tombstones": "one job keeps house for all",
    "generations/artifacts/deletion.py objects.repo.delete": _LAST_STEP,
    "generations/keep.py objects.repo.put": _LAST_STEP,
    "ingest/put_back.py objects.repo.mended": _LAST_STEP,
    "library/project.py objects.repo.delivered": "an event is over when it is projected",
    "library/reconcile/repair.py objects.notifications.repo.tell_again": "with its reason",
    "library/reconcile/repair.py objects.repo.delete": "a bucket's own change, with its reason",
    "library/reconcile/repair.py objects.repo.put": "likewise",
    "submissions/process.py objects.repo.put": _LAST_STEP,
    "submissions/submit.py objects.repo.put": _LAST_STEP,
    "submissions/submit.py objects.repo.share": "a submission and its bytes are there together",
}


def test_only_its_owner_names_a_table() -> None:
    tables = sql.owners_of_tables(sql.baseline())
    clean(ownership.foreign(sources(), sql.sql_texts(), tables, EXCEPTIONS))


def test_a_feature_changes_its_own_rows() -> None:
    clean(ownership.foreign_writes(sources(), FOREIGN_WRITES))


def test_every_table_has_an_owner() -> None:
    made = set(sql.made_tables(sql.baseline()))
    assert made == set(sql.owners_of_tables(sql.baseline()))


def test_sql_knows_only_kinds_that_are_declared() -> None:
    kinds = [kind.name for kind in everything(JobKind)]
    assert "ingest.offload" in kinds
    clean(ownership.undeclared_kinds(sql.sql_texts(), kinds))


def test_history_is_the_last_statement() -> None:
    clean(ownership.history_not_last(sql.sql_texts()))


def test_history_is_written_by_units_of_work() -> None:
    clean(ownership.history_by_hand(sources()))


def test_the_gate_sees_every_way_to_name_a_table() -> None:
    tables = ["jobs", "kv", "tags"]
    for statement in (
        "SELECT FROM jobs", "DELETE FROM jobs j", "INSERT INTO jobs (id)", "UPDATE jobs SET x = 1",
        "SELECT 1 FROM a, jobs", "DECLARE x jobs%ROWTYPE", "jsonb_populate_record(NULL::jobs, x)",
        "nextval('jobs_id_seq')", "SELECT FROM other AS o JOIN jobs USING (id)",
    ):  # fmt: skip
        assert ownership.named(statement, tables) == {"jobs"}, statement
    for statement in ("SELECT tags, kv FROM other", "SELECT jobs('x')", "FROM jobs(1)"):
        assert ownership.named(statement, tables) == set(), statement


def test_the_gate_sees_what_follows_history() -> None:
    def body(end: str) -> dict[str, str]:
        head = "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
        return {"x": f"{head} PERFORM activity_append(a, b(c)); {end} $$;"}

    assert ownership.history_not_last(body("END")) == []
    assert ownership.history_not_last(body("END IF; RETURN true; END")) == []
    assert ownership.history_not_last(body("UPDATE images SET x = 1; END")) == ["f"]
