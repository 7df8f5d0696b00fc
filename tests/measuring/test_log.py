"""What `make bench` counts from PostgreSQL's log, and how it keeps the parts of its page."""

from bench.__main__ import updated
from bench.database import Statement, by_text, commits, read_log

LOG = """\
@@70|0|| LOG:  duration: 0.100 ms  parse __asyncpg_stmt_1__: SELECT record($1)
@@70|0|| LOG:  duration: 0.050 ms  bind __asyncpg_stmt_1__: SELECT record($1)
@@70|801|| LOG:  duration: 1.500 ms  execute __asyncpg_stmt_1__: SELECT record($1)
@@71|0|bench| LOG:  duration: 9.000 ms  execute <unnamed>: SELECT count(*) FROM uploads
@@72|0|| LOG:  duration: 0.020 ms  statement: BEGIN;
@@72|802|| LOG:  duration: 2.000 ms  execute s2:
\t    UPDATE uploads
\t    SET label = $1
@@72|0|| LOG:  duration: 3.000 ms  statement: SELECT finish(7, '{"a": "it''s @@9"}'); COMMIT
@@73|0|| LOG:  could not receive data from client
@@70|803|| LOG:  duration: 0.500 ms  execute __asyncpg_stmt_1__: SELECT record($1)
"""


def test_each_execution_of_others_is_one_statement() -> None:
    found = read_log(LOG)
    assert found == [
        Statement("SELECT record($1)", 1.5, 801, ""),
        Statement("BEGIN;", 0.02, 0, ""),
        Statement("UPDATE uploads SET label = $1", 2.0, 802, ""),
        Statement("""SELECT finish(7, '{"a": "it''s @@9"}'); COMMIT""", 3.0, 0, ""),
        Statement("SELECT record($1)", 0.5, 803, ""),
    ]
    assert commits(found) == 3


def test_statements_are_counted_by_their_text_without_values() -> None:
    assert by_text(read_log(LOG)) == [
        ("SELECT record($1)", 2, 2.0),
        ("BEGIN;", 1, 0.02),
        ("UPDATE uploads SET label = $1", 1, 2.0),
        ("SELECT finish(…, …); COMMIT", 1, 3.0),
    ]


def test_a_part_that_is_measured_anew_leaves_the_others() -> None:
    page = updated(updated("", "queue", "## Queue\n\nold"), "pipeline", "## Pipeline\n\n1")
    page = updated(page, "queue", "## Queue\n\nnew")
    assert page.index("## Pipeline") < page.index("## Queue")
    assert "new" in page
    assert "old" not in page
    assert page.count("# Performance") == 1
