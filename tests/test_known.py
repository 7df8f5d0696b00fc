"""Whoever changes what a credential grants tells those who keep it in mind."""

import re

import pytest

from gates import known, sql
from gates.sources import clean
from points import sources

# `table EVENT`: why nobody has to hear of it.
UNTOLD: dict[str, str] = {
    "sessions INSERT": "a credential nobody has brought yet is kept in mind nowhere",
    "tokens INSERT": "a credential nobody has brought yet is kept in mind nowhere",
    "users INSERT": "a token's maker and a session's user were there before it",
}
# `file function`: why it is no news.
OUTSIDE: dict[str, str] = {
    "accounts/guard.py touch_session": "it lives on, and nothing else changes",
}


def owned() -> list[str]:
    return sql.made_tables(sql.baseline())


def test_every_table_that_credentials_are_read_from_tells_of_its_changes() -> None:
    assert known.tables(sources(), owned()) == {"tokens", "users", "memberships", "sessions"}
    clean(known.unwatched(sql.baseline(), sources(), owned(), UNTOLD))


def test_accounts_changes_them_in_its_units() -> None:
    clean(known.outside_units(sources(), known.tables(sources(), owned()), OUTSIDE))


def test_the_gate_sees_a_table_that_is_read_in_addition() -> None:
    texts = dict(sources())
    texts[known.REPO] = texts[known.REPO].replace(
        "FROM tokens t\n", "FROM tokens t JOIN invitations i ON i.maker_token = t.id\n"
    )
    missing = known.unwatched(sql.baseline(), texts, owned(), UNTOLD)
    assert missing == [f"invitations {event}" for event in ("DELETE", "INSERT", "UPDATE")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("AFTER UPDATE ON tokens FOR EACH ROW", "AFTER UPDATE OF role ON tokens FOR EACH ROW"),
        ("AFTER UPDATE ON tokens FOR EACH ROW", "AFTER UPDATE ON tokens FOR EACH STATEMENT"),
        ("AFTER UPDATE ON tokens", "AFTER INSERT ON tokens"),
        (r"\Z", "\nDROP TRIGGER changed ON tokens;"),
        ("CREATE TRIGGER changed AFTER UPDATE ON tokens", "-- CREATE TRIGGER changed"),
    ],
)
def test_the_gate_sees_a_trigger_that_does_not_tell(before: str, after: str) -> None:
    changed, times = re.subn(before, after, sql.baseline(), count=1)
    assert times == 1
    assert "tokens UPDATE" in known.unwatched(changed, sources(), owned(), UNTOLD)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("await repo.revoke_token(unit.connection, 1)", []),
        ("await repo.revoke_token(self.units.db, 1)", ["accounts/x.py revoke_token"]),
        ("await sign_in_repo.end_session(db, 1)", ["accounts/x.py end_session"]),
        ("await repo.add_link(self.units.db, 1)", []),
        ("await repo.token(self.units.db, 1)", []),
        ("self.units.db.transaction()", ["accounts/x.py self.units.db.transaction()"]),
    ],
)
def test_the_gate_sees_a_write_past_the_units(body: str, found: list[str]) -> None:
    texts = {**sources(), "accounts/x.py": f"async def f():\n    {body}\n"}
    watched = known.tables(sources(), owned())
    assert known.outside_units(texts, watched, OUTSIDE) == found
