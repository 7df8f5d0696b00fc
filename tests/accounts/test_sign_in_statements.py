"""What the statements of signing in and of invitations touch: rows that differ in one thing."""

import pytest

from holding import waits
from safelight.accounts import repo
from safelight.accounts.access import Grant, Invitation, Maker, Role, Token
from safelight.accounts.invitations import repo as invitations
from safelight.accounts.sign_in import repo as sign_in
from safelight.infra.db import Database

NOW = 1000


@pytest.fixture
async def db(database: Database) -> Database:
    for organization in ("acme", "globex"):
        await repo.add_organization(database, organization, 1)
    for user in ("ada", "bob"):
        await repo.add_user(database, user, user, 1)
    await repo.put_member(database, "acme", "ada", Role.ADMIN, 1)
    await repo.put_member(database, "globex", "bob", Role.ADMIN, 1)
    await repo.put_member(database, "acme", "bob", Role.APPROVER, 1)
    return database


async def names(db: Database) -> list[str]:
    rows = await db.fetch("SELECT username FROM users ORDER BY username")
    return [row["username"] for row in rows]


# Invitations


async def invite(
    db: Database,
    username: str = "dora",
    organization: str = "acme",
    *,
    maker: Maker | None = None,
    expires_at: int = NOW + 1,
) -> bytes:
    digest = f"{organization} {username}".encode()
    made = Invitation(organization, username, Role.VIEWER, "test", 1, expires_at)
    await invitations.put(db, made, maker or Maker(), digest)
    return digest


async def stands(db: Database, digest: bytes, username: str = "dora") -> bool:
    """Everybody who looks sees the same."""
    found = await invitations.with_digest(db, digest, NOW)
    of_user = await invitations.of_user(db, username, NOW)
    of_acme = await invitations.of_organization(db, "acme", NOW, after=None, limit=9)
    assert of_user == of_acme == ([found] if found else [])
    taken = await invitations.take(db, digest, NOW)
    assert taken == found
    assert await invitations.take(db, digest, NOW) is None
    return taken is not None


async def test_an_invitation_stands_until_it_expires(db: Database) -> None:
    assert await stands(db, await invite(db))
    assert not await stands(db, await invite(db, expires_at=NOW))


@pytest.mark.parametrize(("user", "standing"), [("ada", True), ("bob", False), (None, True)])
async def test_it_stands_while_its_maker_is_an_admin_there(
    db: Database, user: str | None, standing: bool
) -> None:
    assert await stands(db, await invite(db, maker=Maker(user=user))) == standing


async def test_it_stands_until_its_token_is_revoked(db: Database) -> None:
    for token_id in ("good", "gone"):
        token = Token(token_id, "acme", "t", Grant(Role.ADMIN), "test", 1, None, None)
        await repo.add_token(db, token, token_id.encode())
    await repo.revoke_token(db, "gone", 2)
    assert await stands(db, await invite(db, maker=Maker(token="good")))
    assert not await stands(db, await invite(db, maker=Maker(token="gone")))


async def test_a_second_invitation_takes_the_place_of_the_first(db: Database) -> None:
    await invite(db, maker=Maker(user="bob"), expires_at=2)
    again = Invitation("acme", "dora", Role.ADMIN, "ada", 3, NOW + 5)
    await invitations.put(db, again, Maker(user="ada"), b"new")
    assert await invitations.of_user(db, "dora", NOW) == [again]
    assert await invitations.with_digest(db, b"acme dora", NOW) is None
    assert await invitations.with_digest(db, b"new", NOW) == again


async def test_one_of_them_is_removed(db: Database) -> None:
    for username in ("dora", "eve"):
        for organization in ("acme", "globex"):
            await invite(db, username, organization)
    assert await invitations.remove(db, "acme", "dora")
    assert not await invitations.remove(db, "acme", "dora")
    assert [i.organization for i in await invitations.of_user(db, "dora", NOW)] == ["globex"]
    assert len(await invitations.of_user(db, "eve", NOW)) == 2
    await invitations.remove_all_into(db, "globex")
    assert await invitations.of_user(db, "dora", NOW) == []
    await invite(db)
    await invitations.remove_all_of(db, "eve")
    left = await invitations.of_organization(db, "acme", NOW, after=None, limit=9)
    assert [i.username for i in left] == ["dora"]


async def test_a_page_of_invitations_begins_where_the_last_one_ended(db: Database) -> None:
    for username in ("a", "b", "c"):
        await invite(db, username)
    found = await invitations.of_organization(db, "acme", NOW, after="a", limit=1)
    assert [i.username for i in found] == ["b"]


# Users who have not come yet


async def test_a_user_who_did_not_come_goes_with_everything(db: Database) -> None:
    for user in ("late", "soon"):
        await repo.add_user(db, user, user, 1)
        await repo.put_member(db, "acme", user, Role.VIEWER, 1)
        await sign_in.add_link(db, user.encode(), user, 1, NOW)
    await sign_in.expect_user(db, "late", NOW, new=True)
    await sign_in.expect_user(db, "soon", NOW + 1, new=True)
    assert await sign_in.end_unused_users(db, NOW) == [("late", "acme")]
    assert await names(db) == ["ada", "bob", "soon"]
    assert await db.fetchval("SELECT count(*) FROM sign_in_links") == 1
    members = await repo.members(db, "acme", after=None, limit=9)
    assert [member.username for member in members] == ["ada", "bob", "soon"]


async def test_whoever_came_stays(db: Database) -> None:
    for user in ("password", "session", "token", "kept", "known"):
        await repo.add_user(db, user, user, 1)
        await sign_in.expect_user(db, user, NOW, new=True)
    await repo.set_password(db, "password", "h")
    await sign_in.add_session(db, b"s", "session", 1, NOW)
    token = Token("t", "acme", "t", Grant(Role.ADMIN), "test", 1, None, None, "token")
    await repo.add_token(db, token, b"t")
    for user in ("kept", "known"):
        await sign_in.add_link(db, user.encode(), user, 1, NOW)
        await sign_in.keep_user(db, user.encode())
    await sign_in.expect_user(db, "known", NOW, new=False)  # lost the password, gets a link
    await sign_in.end_unused_users(db, NOW)
    assert await names(db) == ["ada", "bob", "kept", "known", "password", "session", "token"]


async def test_another_link_gives_more_time(db: Database) -> None:
    await sign_in.expect_user(db, "ada", NOW, new=True)
    await sign_in.expect_user(db, "ada", NOW + 1, new=False)
    await sign_in.end_unused_users(db, NOW)
    assert "ada" in await names(db)


async def test_one_who_comes_just_now_is_left_alone(db: Database) -> None:
    await sign_in.expect_user(db, "ada", NOW, new=True)
    await sign_in.add_link(db, b"link", "ada", 1, NOW)
    assert not await waits(
        db,
        lambda c: sign_in.keep_user(c, b"link"),
        lambda c: sign_in.end_unused_users(c, NOW),
    )
    assert "ada" in await names(db)


async def test_what_is_over_lets_nobody_in(db: Database) -> None:
    await repo.add_user(db, "dora", "dora", 1)
    await repo.put_member(db, "acme", "dora", Role.VIEWER, 1)
    await sign_in.add_session(db, b"s", "dora", 1, NOW)
    await sign_in.add_link(db, b"used", "dora", 1, NOW + 1)
    assert not await unreachable(db), "it is not used yet"
    await sign_in.use_link(db, b"used", 2)
    await sign_in.add_link(db, b"late", "dora", 1, NOW)
    for name, end, revoked in (("late", NOW, None), ("revoked", None, 2)):
        token = Token(name, "acme", "t", Grant(Role.VIEWER), "dora", 1, end, None, "dora")
        await repo.add_token(db, token, name.encode())
        if revoked:
            await repo.revoke_token(db, name, revoked)
    assert await unreachable(db)
    assert not await unreachable(db, "globex"), "from there, it is a member of another one"


async def unreachable(db: Database, organization: str = "acme") -> bool:
    async with db.transaction() as connection:
        return await sign_in.is_unreachable(connection, "dora", organization, NOW)


# Devices, links and what they opened


async def test_a_session_of_this_user_that_a_link_opened_lately(db: Database) -> None:
    await sign_in.add_session(db, b"link", "ada", 5, NOW, by_link=True)
    await sign_in.add_session(db, b"password", "ada", 5, NOW)
    assert await sign_in.came_by_link(db, b"link", "ada", 4)
    assert not await sign_in.came_by_link(db, b"link", "ada", 5)
    assert not await sign_in.came_by_link(db, b"link", "bob", 4)
    assert not await sign_in.came_by_link(db, b"password", "ada", 4)


async def test_a_device_is_known_for_whom_it_signed_in(db: Database) -> None:
    async with db.transaction() as connection:
        await sign_in.renew_device(connection, None, b"1", "ada", 1)
        await sign_in.renew_device(connection, None, b"2", "bob", 1)
    assert await sign_in.knows_device(db, b"1", "ada")
    assert not await sign_in.knows_device(db, b"1", "bob")
    assert not await sign_in.knows_device(db, b"3", "ada")
    assert await sign_in.still_knows_device(db, b"1", "ada")
    assert not await sign_in.still_knows_device(db, b"1", "bob")
    assert not await sign_in.still_knows_device(db, b"3", "ada")


async def test_whether_a_device_is_still_known_waits_for_whoever_renews_it(db: Database) -> None:
    async with db.transaction() as connection:
        await sign_in.renew_device(connection, None, b"1", "ada", 1)
        await sign_in.renew_device(connection, None, b"2", "ada", 1)
    assert await waits(
        db,
        lambda c: sign_in.renew_device(c, b"1", b"3", "bob", 2),
        lambda c: sign_in.still_knows_device(c, b"1", "ada"),
    )
    assert not await waits(
        db,
        lambda c: sign_in.renew_device(c, b"3", b"4", "bob", 3),
        lambda c: sign_in.still_knows_device(c, b"2", "ada"),
    )


async def test_failures_move_with_their_device(db: Database) -> None:
    for subject in ("a", "b", "c"):
        assert await sign_in.add_failure(db, subject, {subject: []}, 0, NOW)
    await sign_in.move_failures(db, {"a": "x", "b": "y"})
    moved = await sign_in.failures_since(db, ["a", "b", "c", "x", "y"], 0)
    assert moved == {"a": [], "b": [], "c": [NOW], "x": [NOW], "y": [NOW]}


async def test_a_renewed_device_keeps_what_it_was_known_for(db: Database) -> None:
    async with db.transaction() as connection:
        assert await sign_in.renew_device(connection, None, b"1", "ada", 1) == []
        assert await sign_in.renew_device(connection, None, b"other", "ada", 1) == []
        assert await sign_in.renew_device(connection, b"1", b"2", "bob", 2) == ["ada"]
        assert await sign_in.renew_device(connection, b"2", b"3", "bob", 3) == ["ada"]
    rows = await db.fetch("SELECT digest, user_id, seen_at FROM sign_in_devices ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [
        (b"3", "ada", 1),
        (b"3", "bob", 3),
        (b"other", "ada", 1),
    ]
    await sign_in.purge_expired(db, 0, failures_before=0, devices_before=1)
    assert not await sign_in.knows_device(db, b"3", "ada")
    assert await sign_in.knows_device(db, b"3", "bob"), "of one browser, what is old goes"


async def test_one_users_links_and_devices_end(db: Database) -> None:
    async with db.transaction() as connection:
        for user in ("ada", "bob"):
            await sign_in.add_link(connection, user.encode(), user, 1, NOW)
            await sign_in.renew_device(connection, None, user.encode(), user, 1)
    await sign_in.end_links_of(db, "ada")
    await sign_in.forget_devices_of(db, "ada")
    assert await sign_in.user_of_link(db, b"ada", 1) is None
    assert await sign_in.user_of_link(db, b"bob", 1) == "bob"
    assert not await sign_in.knows_device(db, b"ada", "ada")
    assert await sign_in.knows_device(db, b"bob", "bob")
