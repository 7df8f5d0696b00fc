"""Invitations: who may take one up, until when, and what happens when two things happen at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from accounts.world import World
from holding import until_waiting
from safelight.accounts import repo
from safelight.accounts.access import Caller, Grant, Invitation, Role, Token
from safelight.accounts.invitations.invitations import SignInFirst, UnknownInvitation
from safelight.accounts.members import LastAdmin
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.accounts.sign_in.flow import Opened
from safelight.accounts.sign_in.links import DeadLink
from safelight.errors import Unauthenticated
from safelight.infra import failpoints


@pytest.fixture
async def ada(world: World) -> Caller:
    """An admin of acme; bob is another."""
    await world.organization("acme", "globex")
    await world.user("bob", {"acme": Role.ADMIN})
    await world.user("ada", {"acme": Role.ADMIN})
    return await signed_in(world, await world.cookie("ada"))


async def signed_in(world: World, cookie: str) -> Caller:
    caller = await world.credentials.of_session(cookie)
    assert caller is not None
    return caller


async def invite(
    world: World, actor: Caller, username: str = "dora", role: Role = Role.MEMBER
) -> str:
    """The code of the link."""
    put = await world.members.put("acme", username, role, actor=actor)
    assert isinstance(put, tuple)
    return put[1].removeprefix("/login?code=")


async def accept(world: World, code: str, cookie: str | None = None) -> Caller:
    opened = await world.sign_in.with_code(code, cookie=cookie)
    return await signed_in(world, opened.cookie)


async def pending(world: World, username: str = "dora") -> list[Invitation]:
    return await world.invitations.to(username)


async def story(world: World, username: str = "dora") -> list[tuple[str, str]]:
    rows = await world.db.fetch(
        "SELECT type, data FROM activity WHERE subject = $1 ORDER BY seq", f"user:{username}"
    )
    return [(row["type"], row["data"]["actor"]["name"]) for row in rows]


async def test_whoever_brings_the_link_becomes_the_user(world: World, ada: Caller) -> None:
    code = await invite(world, ada, role=Role.APPROVER)
    assert await repo.user_named(world.db, "dora") is None, "nobody has come yet"
    dora = await accept(world, code)
    assert (dora.name, dora.organizations) == ("dora", {"acme": Role.APPROVER})
    assert await story(world) == [("member_invited", "ada"), ("member_put", "dora")]
    assert await pending(world) == []


async def test_an_existing_user_brings_both_the_link_and_the_session(
    world: World, ada: Caller
) -> None:
    await world.user("dora", {"globex": Role.ADMIN})
    code = await invite(world, ada)
    for cookie in (None, await world.cookie("bob"), "made up"):
        with pytest.raises(SignInFirst):
            await world.sign_in.with_code(code, cookie=cookie)
    [waiting] = await pending(world)
    assert (waiting.organization, waiting.role, waiting.made_by) == ("acme", Role.MEMBER, "ada")
    cookie = await world.cookie("dora")
    assert (await signed_in(world, cookie)).organizations == {"globex": Role.ADMIN}
    dora = await accept(world, code, cookie)
    assert dora.organizations == {"acme": Role.MEMBER, "globex": Role.ADMIN}
    assert await world.credentials.of_session(cookie) is None, "with more rights, a new session"


async def leave_at_once(world: World, ada: Caller) -> None:
    """Dora comes, and goes before she has chosen a password. Then ada removes her."""
    opened = await world.sign_in.with_code(await invite(world, ada), cookie=None)
    await world.sign_in.out(opened.cookie)
    await world.members.remove("acme", "dora", actor=ada)


async def test_who_left_without_a_password_comes_back_by_another_invitation(
    world: World, ada: Caller
) -> None:
    await leave_at_once(world, ada)
    dora = await accept(world, await invite(world, ada, role=Role.APPROVER))
    assert (dora.name, dora.organizations) == ("dora", {"acme": Role.APPROVER})


async def test_who_stayed_away_until_the_session_ended_does_so_too(
    world: World, ada: Caller
) -> None:
    await accept(world, await invite(world, ada))
    world.clock.advance(days=31)
    ada = await signed_in(world, await world.cookie("ada"))
    assert not isinstance(await world.members.put("acme", "dora", Role.VIEWER, actor=ada), tuple)
    await world.members.remove("acme", "dora", actor=ada)
    assert (await accept(world, await invite(world, ada))).name == "dora"


Keeping = Callable[[World, str], Awaitable[object]]
WAYS_IN: dict[str, Keeping] = {
    "a password": lambda world, dora: repo.set_password(world.db, dora, "hash"),
    "a session": lambda world, dora: sign_in_repo.add_session(world.db, b"1", dora, 1, LATER),
    "a link": lambda world, dora: sign_in_repo.add_link(world.db, b"1", dora, 1, LATER),
    "a token": lambda world, dora: repo.add_token(world.db, token_of(dora), b"1"),
    "another organization": lambda world, dora: repo.put_member(world.db, "globex", dora, Role.VIEWER, 1),
    "the whole server": lambda world, dora: repo.reinstate_user(world.db, dora, operator=True),
}  # fmt: skip
LATER = 1_900_000_000_000


def token_of(user_id: str) -> Token:
    return Token("tok", "globex", "t", Grant(Role.VIEWER), "dora", 1, None, None, user_id)


@pytest.mark.parametrize("keeping", WAYS_IN.values(), ids=WAYS_IN)
async def test_an_account_with_anything_to_it_is_its_owners(
    world: World, ada: Caller, keeping: Keeping
) -> None:
    await leave_at_once(world, ada)
    dora = await repo.user_named(world.db, "dora")
    assert dora is not None
    await keeping(world, dora.id)
    code = await invite(world, ada)
    with pytest.raises(SignInFirst):
        await world.sign_in.with_code(code, cookie=None)


async def test_a_revoked_user_never_accepts(world: World, ada: Caller) -> None:
    await world.user("dora")
    cookie = await world.cookie("dora")
    await world.members.revoke_user("dora")
    code = await invite(world, ada)
    for brought in (None, cookie):
        with pytest.raises(SignInFirst):
            await world.sign_in.with_code(code, cookie=brought)


async def test_revoking_a_user_ends_invitations_to_them(world: World, ada: Caller) -> None:
    await world.user("dora")
    await invite(world, ada)
    await world.members.revoke_user("dora")
    assert await pending(world) == []


async def test_it_ends_after_a_day_and_leaves_nothing(world: World, ada: Caller) -> None:
    code = await invite(world, ada)
    world.clock.advance(hours=24)
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(code, cookie=None)
    assert await pending(world) == []
    assert await repo.user_named(world.db, "dora") is None
    await world.cookie("ada")
    assert await world.db.fetchval("SELECT count(*) FROM invitations") == 0, "swept"


Ending = Callable[[World, Caller], Awaitable[object]]
ENDINGS: dict[str, Ending] = {
    "withdrawn": lambda world, ada: world.invitations.withdraw("acme", "dora", actor=ada),
    "asked again": invite,
    "its maker lowered": lambda world, ada: world.members.put("acme", "ada", Role.APPROVER, actor=ada),
    "its maker removed": lambda world, ada: world.members.remove("acme", "ada", actor=ada),
    "its maker revoked": lambda world, _: world.members.revoke_user("ada"),
    "closed": lambda world, _: world.members.close_organization("acme"),
    "welcomed by the command line": lambda world, _: world.members.welcome("dora", "acme", Role.VIEWER),
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_what_ends_a_link(world: World, ada: Caller, ending: Ending) -> None:
    code = await invite(world, ada, role=Role.ADMIN)
    await ending(world, ada)
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(code, cookie=None)


@pytest.mark.parametrize("expires", [True, False])
async def test_it_ends_with_the_token_that_made_it(
    world: World, ada: Caller, expires: bool
) -> None:
    soon = world.clock.now_ms() + 60_000
    token, secret = await world.tokens.make(
        "acme", Grant(Role.ADMIN), name="t", maker=ada, expires_at=soon if expires else None
    )
    maker = await world.credentials.of_token(secret)
    assert maker is not None
    code = await invite(world, maker)
    eve = await accept(world, await invite(world, maker, "eve"))
    if expires:
        assert [waiting.expires_at for waiting in await pending(world)] == [soon]
        world.clock.advance(minutes=1)
    else:
        await world.tokens.revoke(token.id, organization=None, actor=None)
    assert await pending(world) == []
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(code, cookie=None)
    assert await repo.user_named(world.db, "dora") is None
    assert await repo.user(world.db, eve.id), "whoever came in time stays"


async def test_a_guest_may_decline(world: World, ada: Caller) -> None:
    await world.user("dora")
    dora = await signed_in(world, await world.cookie("dora"))
    await invite(world, ada)
    await world.invitations.decline("acme", user=dora)
    assert await pending(world) == []
    assert (await story(world))[-1] == ("member_invitation_declined", "dora")
    for organization in ("acme", "globex", "nowhere", ""):
        with pytest.raises(UnknownInvitation):
            await world.invitations.decline(organization, user=dora)


async def test_withdrawing_what_is_not_there(world: World, ada: Caller) -> None:
    await invite(world, ada)
    for organization, username in (("acme", "ada"), ("globex", "dora"), ("acme", "NO NAME")):
        with pytest.raises(UnknownInvitation):
            await world.invitations.withdraw(organization, username, actor=ada)
    assert len(await pending(world)) == 1


async def test_an_invited_admin_is_none_yet(world: World, ada: Caller) -> None:
    await world.members.remove("acme", "bob", actor=ada)
    await invite(world, ada, role=Role.ADMIN)
    with pytest.raises(LastAdmin):
        await world.members.remove("acme", "ada", actor=ada)
    with pytest.raises(LastAdmin):
        await world.members.put("acme", "ada", Role.VIEWER, actor=ada)


# At once


async def test_two_admins_invite_at_once(world: World, ada: Caller) -> None:
    bob = await signed_in(world, await world.cookie("bob"))
    codes = await asyncio.gather(
        invite(world, ada, role=Role.ADMIN), invite(world, bob, role=Role.VIEWER)
    )
    [waiting] = await pending(world)
    results = [await try_code(world, code) for code in codes]
    assert sorted(type(result).__name__ for result in results) == ["DeadLink", "Opened"]
    dora = await repo.user_named(world.db, "dora")
    assert dora is not None
    assert dora.roles == {"acme": waiting.role}, "what the link that counts was made for"


async def try_code(world: World, code: str, cookie: str | None = None) -> Opened | Unauthenticated:
    try:
        return await world.sign_in.with_code(code, cookie=cookie)
    except Unauthenticated as error:
        return error


@pytest.mark.parametrize("exists", [False, True])
async def test_accepting_twice_at_once(world: World, ada: Caller, exists: bool) -> None:
    if exists:
        await world.user("dora")
    cookie = await world.cookie("dora") if exists else None
    code = await invite(world, ada)
    results = await asyncio.gather(*(try_code(world, code, cookie) for _ in range(4)))
    assert sum(isinstance(result, Opened) for result in results) == 1
    assert sum(isinstance(result, DeadLink) for result in results) == 3
    assert (await story(world)).count(("member_put", "dora")) == 1


async def test_two_organizations_invite_a_name_nobody_has(world: World, ada: Caller) -> None:
    await world.user("gus", {"globex": Role.ADMIN})
    gus = await signed_in(world, await world.cookie("gus"))
    put = await world.members.put("globex", "dora", Role.ADMIN, actor=gus)
    assert isinstance(put, tuple)
    codes = [await invite(world, ada), put[1].removeprefix("/login?code=")]
    results = await asyncio.gather(*(try_code(world, code) for code in codes))
    assert sorted(type(result).__name__ for result in results) == ["Opened", "SignInFirst"]
    dora = await repo.user_named(world.db, "dora")
    assert dora is not None
    assert len(dora.roles) == 1, "the other one is still to be accepted, by whoever is dora now"
    assert len(await pending(world)) == 1


async def test_two_organizations_invite_one_who_left_without_a_password(
    world: World, ada: Caller
) -> None:
    """One of the two links opens the account, or an admin of each would be in the other's."""
    await leave_at_once(world, ada)
    await world.user("gus", {"globex": Role.ADMIN})
    gus = await signed_in(world, await world.cookie("gus"))
    put = await world.members.put("globex", "dora", Role.ADMIN, actor=gus)
    assert isinstance(put, tuple)
    code = await invite(world, ada)
    armed = failpoints.arm("accounts.put_member", "hold@1")
    first = asyncio.create_task(try_code(world, code))
    await armed.passed()
    second = asyncio.create_task(try_code(world, put[1].removeprefix("/login?code=")))
    await until_waiting(world.db, 1)
    failpoints.disarm("accounts.put_member")
    assert isinstance(await first, Opened)
    assert isinstance(await second, SignInFirst)


async def test_withdrawn_while_it_is_being_accepted(world: World, ada: Caller) -> None:
    code = await invite(world, ada)
    armed = failpoints.arm("accounts.invitations.take", "hold@1")
    accepting = asyncio.create_task(try_code(world, code))
    await armed.passed()
    await world.invitations.withdraw("acme", "dora", actor=ada)
    failpoints.disarm("accounts.invitations.take")
    assert isinstance(await accepting, DeadLink)
    assert await repo.user_named(world.db, "dora") is None


async def test_a_new_role_waits_for_an_acceptance_under_way(world: World, ada: Caller) -> None:
    """Whoever accepts gets what the link was for; the admin who comes second changes a member."""
    code = await invite(world, ada)
    armed = failpoints.arm("accounts.put_member", "hold@1")
    accepting = asyncio.create_task(accept(world, code))
    await armed.passed()
    changing = asyncio.create_task(world.members.put("acme", "dora", Role.VIEWER, actor=ada))
    failpoints.disarm("accounts.put_member")
    await accepting
    assert not isinstance(await changing, tuple)
    dora = await repo.user_named(world.db, "dora")
    assert dora is not None
    assert dora.roles == {"acme": Role.VIEWER}
    assert await pending(world) == []
