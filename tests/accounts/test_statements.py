"""What the statements of accounts touch and what they leave alone: rows that differ in one thing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holding import waits
from safelight.accounts import repo
from safelight.accounts.access import Grant, Role, Token, Whence
from safelight.accounts.sign_in import repo as sign_in
from safelight.accounts.uses import repo as uses
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds

NOW = 1000
KEY = b"digest"


@pytest.fixture
async def db(database: Database) -> Database:
    """Ada is an admin of acme and bob of globex, where the other one may look; carl is neither's."""
    for organization in ("acme", "globex"):
        await repo.add_organization(database, organization, 1)
    for user in ("ada", "bob", "carl"):
        await repo.add_user(database, user, user, 1)
    for admin, viewer, organization in (("ada", "bob", "acme"), ("bob", "ada", "globex")):
        await repo.put_member(database, organization, admin, Role.ADMIN, 1)
        await repo.put_member(database, organization, viewer, Role.VIEWER, 1)
    return database


async def make_token(
    db: Database,
    token_id: str = "t",
    *,
    expires_at: int | None = None,
    revoked_at: int | None = None,
    maker: str | None = None,
    maker_token: str | None = None,
) -> None:
    grant = Grant(Role.ADMIN)
    made = Token(
        token_id, "acme", "t", grant, "test", 1, expires_at, None, maker, maker_token
    )  # fmt: skip
    await repo.add_token(db, made, token_id.encode())
    await db.execute("UPDATE tokens SET revoked_at = $2 WHERE id = $1", token_id, revoked_at)


async def revoke(db: Database, user_id: str) -> None:
    """In the row alone, as nothing else of the user was touched."""
    await db.execute("UPDATE users SET revoked_at = 1 WHERE id = $1", user_id)


# Members


async def test_other_admins_are_others_and_admins(db: Database) -> None:
    async with db.transaction() as connection:
        assert await repo.other_admins(connection, "acme", "ada") == 0
        assert await repo.other_admins(connection, "acme", "bob") == 1


async def test_one_member_of_one_organization_is_removed(db: Database) -> None:
    await repo.remove_member(db, "acme", "ada")
    left = await db.fetch("SELECT organization, user_id FROM memberships ORDER BY 1, 2")
    assert [tuple(row) for row in left] == [("acme", "bob"), ("globex", "ada"), ("globex", "bob")]


async def test_a_page_begins_where_the_last_one_ended(db: Database) -> None:
    members = await repo.members(db, "acme", after="ada", limit=9)
    assert [member.username for member in members] == ["bob"]
    for token_id in ("a", "b", "c"):
        await make_token(db, token_id)
    tokens = await repo.tokens(db, "acme", before=(1, "b"), limit=9)
    assert [token.id for token in tokens] == ["a"]


# Tokens


@pytest.mark.parametrize("expires_at", [None, NOW + 1])
async def test_a_live_token_is_found(db: Database, expires_at: int | None) -> None:
    await make_token(db, expires_at=expires_at)
    assert await repo.token_with(db, b"t", NOW)


async def test_an_expired_or_revoked_token_is_not(db: Database) -> None:
    await make_token(db, "late", expires_at=NOW)
    await make_token(db, "gone", revoked_at=1)
    assert await repo.token_with(db, b"late", NOW) is None
    assert await repo.token_with(db, b"gone", NOW) is None


@pytest.mark.parametrize(
    ("maker", "holds"), [("ada", Grant(Role.ADMIN)), ("bob", Grant(Role.VIEWER)), ("carl", None)]
)
async def test_a_maker_holds_what_they_hold_there(
    db: Database, maker: str, holds: Grant | None
) -> None:
    await repo.put_member(db, "globex", "carl", Role.ADMIN, 1)
    await make_token(db, maker=maker)
    found = await repo.token_with(db, b"t", NOW)
    assert found
    assert found.maker_grant == holds


async def test_a_revoked_maker_holds_nothing(db: Database) -> None:
    await make_token(db, maker="ada")
    await revoke(db, "ada")
    found = await repo.token_with(db, b"t", NOW)
    assert found
    assert found.maker_grant is None


REVOCATIONS: list[Callable[[Database], Awaitable[None]]] = [
    lambda db: repo.revoke_user(db, "ada", NOW),  # type: ignore[arg-type]  # each by itself
    lambda db: repo.revoke_token(db, "new", NOW),
    lambda db: repo.revoke_all_tokens(db, "acme", NOW),
]


@pytest.mark.parametrize("revocation", REVOCATIONS, ids=["user", "token", "organization"])
async def test_what_was_revoked_before_keeps_its_time(
    db: Database, revocation: Callable[[Database], Awaitable[None]]
) -> None:
    await make_token(db, "new", maker="ada")
    await make_token(db, "old", maker="ada", maker_token="new", revoked_at=5)
    await revocation(db)
    rows = await db.fetch("SELECT id, revoked_at FROM tokens")
    assert {row["id"]: row["revoked_at"] for row in rows} == {"new": NOW, "old": 5}


# Sessions


async def test_a_session_opens_until_it_expires_or_its_user_is_revoked(db: Database) -> None:
    await sign_in.add_session(db, KEY, "ada", 1, NOW)
    assert await repo.session_user(db, KEY, NOW - 1, 0)
    assert await repo.session_user(db, KEY, NOW - 1, 1) is None, "too old"
    assert await repo.session_user(db, KEY, NOW, 0) is None
    await revoke(db, "ada")
    assert await repo.session_user(db, KEY, NOW - 1, 0) is None


async def test_a_session_is_not_seen_earlier_than_it_was(db: Database) -> None:
    """Of two requests at once the later may be the first to write."""
    await sign_in.add_session(db, KEY, "ada", NOW, 2 * NOW)
    await sign_in.touch_session(db, KEY, NOW - 1, NOW)
    found = await db.fetchrow("SELECT seen_at, expires_at FROM sessions")
    assert found
    assert tuple(found) == (NOW, 2 * NOW)


async def test_a_user_sees_what_still_opens(db: Database) -> None:
    for key, user, since, end in (
        (b"a", "ada", 2, NOW + 1), (b"b", "ada", 3, NOW + 1), (b"ended", "ada", 4, NOW),
        (b"old", "ada", 1, NOW + 1), (b"bob's", "bob", 5, NOW + 1),
    ):  # fmt: skip
        await sign_in.add_session(db, key, user, since, end, whence=Whence("there", user))
    found = await sign_in.sessions_of(db, "ada", NOW, 1)
    assert [one.digest for one in found] == [b"b", b"a"], "the last seen first"
    assert found[0].whence == Whence("there", "ada")
    assert await repo.last_seen(db, "acme", ["ada", "carl"]) == {"ada": 4}
    assert await repo.last_seen(db, "globex", ["bob"]) == {"bob": 5}
    await sign_in.end_sessions_of(db, "ada", but=b"a")
    left = await db.fetch("SELECT digest FROM sessions ORDER BY digest")
    assert [row["digest"] for row in left] == [b"a", b"bob's"]
    await sign_in.end_sessions_of(db, "ada")
    assert await db.fetchval("SELECT count(*) FROM sessions") == 1


async def test_a_use_is_noted_now_and_then(db: Database) -> None:
    for token, now, before in (("t", 10, 0), ("u", 11, 0), ("t", 15, 9), ("u", 20, 11)):
        await uses.note_use(db, token, now, before)
    assert await uses.last_uses(db, ["t", "u", "v"]) == {"t": 10, "u": 20}


# Signing in


async def test_a_link_is_used_once_in_time_and_by_its_user(db: Database) -> None:
    for number, user in enumerate(("bob", "ada", "carl")):
        await sign_in.add_link(db, b"%d" % number, user, 1, NOW)
    await revoke(db, "carl")
    for look in (sign_in.use_link, sign_in.user_of_link):
        assert await look(db, b"2", NOW - 1) is None
        assert await look(db, b"1", NOW) is None
    assert [await sign_in.user_of_link(db, b"1", NOW - 1) for _ in range(2)] == ["ada", "ada"]
    assert [await sign_in.use_link(db, b"1", NOW - 1) for _ in range(2)] == ["ada", None]
    rows = await db.fetch("SELECT user_id FROM sign_in_links WHERE used_at IS NOT NULL")
    assert [row["user_id"] for row in rows] == ["ada"]
    assert await sign_in.user_of_link(db, b"1", NOW - 1) is None


async def fail(db: Any, attempt: str, now: int, *, since: int = 0, **seen: list[int]) -> bool:
    return await sign_in.add_failure(db, attempt, seen, since, now)


async def test_failures_count_from_a_moment_on(db: Database) -> None:
    assert await fail(db, "old", 5, ada=[])
    assert await fail(db, "new", 6, ada=[5], bob=[])
    assert await sign_in.failures_since(db, ["ada", "carl"], 5) == {"ada": [6], "carl": []}


async def test_a_failure_counts_unless_there_are_more_than_somebody_saw(db: Database) -> None:
    assert await fail(db, "first", 5, ada=[], bob=[])
    assert not await fail(db, "second", 6, ada=[])
    assert not await fail(db, "second", 6, bob=[5], ada=[]), "of any of them"
    assert not await fail(db, "second", 6, ada=[4]), "as many, but not the same"
    assert await db.fetchval("SELECT count(*) FROM sign_in_failures") == 2
    assert await fail(db, "second", 6, ada=[5, 5], bob=[5]), "fewer than seen: one has succeeded"
    assert await fail(db, "third", 7, carl=[]), "others' are no matter"
    assert await fail(db, "fourth", 7, since=6, bob=[]), "nor are those of long ago"


# Who waits for whom


async def test_whoever_changes_the_same_waits(db: Database) -> None:
    for lock in (
        repo.lock_first_start,
        lambda c: repo.lock_organization(c, "acme"),
        lambda c: fail(c, RandomIds().uuid4(), 5, ada=[5, 5]),
    ):
        assert await waits(db, lock, lock)
    assert await waits(
        db, lambda c: repo.set_password(c, "ada", "h"), lambda c: repo.lock_user(c, "ada")
    )


async def test_what_another_one_is_dropping_is_left_to_it(db: Database) -> None:
    for key in (b"1", b"2"):
        await sign_in.add_session(db, key, "ada", 1, NOW)
    assert not await waits(
        db,
        lambda c: sign_in.end_session(c, b"1"),
        lambda c: sign_in.purge_expired(c, NOW, failures_before=NOW, devices_before=NOW),
    )
    assert await db.fetchval("SELECT count(*) FROM sessions") == 0
