"""Tokens answer to their makers, members to their admins; each change leaves a line of history."""

import asyncio

import pytest

from accounts.world import World
from safelight.accounts import repo
from safelight.accounts.access import Caller, Grant, Role
from safelight.accounts.members import LastAdmin, UnknownMember, UnknownOrganization, UnknownUser
from safelight.accounts.tokens import UnknownToken
from safelight.errors import Forbidden, InvalidRequest, NameTaken, NotFound
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError

ADMIN = Grant(Role.ADMIN)


@pytest.fixture
async def ada(world: World) -> Caller:
    """An admin of acme."""
    await world.organization("acme", "globex")
    await world.user("ada", {"acme": Role.ADMIN})
    caller = await world.credentials.of_session(await world.cookie("ada"))
    assert caller is not None
    return caller


async def make(
    world: World, maker: Caller | None, grant: Grant = ADMIN, expires_at: int | None = None
) -> tuple[str, str]:
    token, secret = await world.tokens.make(
        "acme", grant, name="t", maker=maker, expires_at=expires_at
    )
    return token.id, secret


async def caller_of(world: World, secret: str) -> Caller:
    caller = await world.credentials.of_token(secret)
    assert caller is not None
    return caller


async def history(world: World) -> list[tuple[str, str, str]]:
    rows = await world.db.fetch("SELECT subject, type, data FROM activity ORDER BY seq")
    return [(row["subject"], row["type"], row["data"]["actor"]["name"]) for row in rows]


async def test_a_token_is_a_caller_in_one_organization(world: World, ada: Caller) -> None:
    token_id, secret = await make(world, ada, Grant(Role.MEMBER))
    caller = await caller_of(world, secret)
    assert secret.startswith("slt_")
    assert len(secret) > 40
    assert (caller.kind, caller.id, caller.name, caller.home) == ("token", token_id, "t", "acme")
    assert caller.organizations == {"acme": Role.MEMBER}
    assert (f"token:{token_id}", "token_made", "ada") in await history(world)


@pytest.mark.parametrize("secret", ["", "slt_", "slt_x", "xyz", "slt_\ud800", "slt_" + "a" * 9999])
async def test_a_made_up_token_is_nobodys(world: World, ada: Caller, secret: str) -> None:
    assert await world.credentials.of_token(secret) is None


async def test_expired_and_revoked_tokens_are_nobodys(world: World, ada: Caller) -> None:
    _, short = await make(world, ada, expires_at=world.clock.now_ms() + 1000)
    token_id, long = await make(world, ada)
    world.clock.advance(seconds=1)
    assert await world.credentials.of_token(short) is None
    await world.tokens.revoke(token_id, organization="acme", actor=ada)
    await world.tokens.revoke(token_id, organization="acme", actor=ada)
    assert await world.credentials.of_token(long) is None
    assert [line[1] for line in await history(world)].count("token_revoked") == 1


async def come_back(world: World, name: str) -> None:
    """Invited by the command line, and accepted."""
    link = (await world.members.welcome(name, "acme", Role.ADMIN)).link
    code = link.removeprefix("/login?code=")
    opened = await world.sign_in.with_code(code, cookie=await world.cookie(name))
    caller = await world.credentials.of_session(opened.cookie)
    assert caller is not None
    assert caller.organizations == {"acme": Role.ADMIN}


async def test_a_lowered_maker_lowers_the_token_at_once(world: World, ada: Caller) -> None:
    await world.user("bob", {"acme": Role.ADMIN})
    _, secret = await make(world, ada)
    await world.members.put("acme", "ada", Role.VIEWER, actor=ada)
    assert (await caller_of(world, secret)).organizations == {"acme": Role.VIEWER}
    await world.members.remove("acme", "ada", actor=ada)
    assert await world.credentials.of_token(secret) is None
    await come_back(world, "ada")
    assert (await caller_of(world, secret)).organizations == {"acme": Role.ADMIN}


async def test_an_operators_token_ends_being_one_with_its_maker(world: World) -> None:
    await world.organization("acme")
    user_id = await world.user("root", {"acme": Role.ADMIN}, operator=True)
    maker = await world.credentials.of_session(await world.cookie("root"))
    _, secret = await make(world, maker, Grant(Role.ADMIN, operator=True))
    assert (await caller_of(world, secret)).operator
    await repo.reinstate_user(world.db, user_id, operator=False)
    assert not (await caller_of(world, secret)).operator


async def test_revoking_a_user_ends_their_tokens_for_good(world: World, ada: Caller) -> None:
    _, secret = await make(world, ada)
    _, child = await make(world, await caller_of(world, secret))
    await world.members.revoke_user("ada")
    await world.members.welcome("ada", "acme", Role.ADMIN)
    assert await world.credentials.of_token(secret) is None
    assert await world.credentials.of_token(child) is None


async def test_what_a_token_made_ends_with_it(world: World, ada: Caller) -> None:
    first_id, first = await make(world, ada)
    _, second = await make(world, await caller_of(world, first))
    _, third = await make(world, await caller_of(world, second), Grant(Role.VIEWER))
    _, other = await make(world, ada)
    await world.tokens.revoke(first_id, organization=None, actor=None)
    assert [await world.credentials.of_token(one) for one in (first, second, third)] == [None] * 3
    assert await world.credentials.of_token(other)


async def test_a_token_made_by_a_token_does_not_outlive_it(world: World, ada: Caller) -> None:
    _, first = await make(world, ada, expires_at=world.clock.now_ms() + 60_000)
    _, second = await make(world, await caller_of(world, first))
    world.clock.advance(minutes=1)
    assert await world.credentials.of_token(second) is None


async def test_a_token_revoked_meanwhile_makes_none(world: World, ada: Caller) -> None:
    first_id, first = await make(world, ada)
    maker = await caller_of(world, first)
    await world.tokens.revoke(first_id, organization=None, actor=None)
    with pytest.raises(Forbidden):
        await make(world, maker)


async def test_nobody_grants_what_they_do_not_hold(world: World, ada: Caller) -> None:
    with pytest.raises(Forbidden):
        await make(world, ada, Grant(Role.ADMIN, operator=True))
    with pytest.raises(NotFound):
        await world.tokens.make("globex", Grant(Role.VIEWER), name="t", maker=ada)
    _, secret = await make(world, ada, Grant(Role.APPROVER))
    with pytest.raises(Forbidden):
        await make(world, await caller_of(world, secret), Grant(Role.VIEWER))


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "a\x00"])
async def test_a_bad_name_is_refused(world: World, ada: Caller, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await world.tokens.make("acme", ADMIN, name=name, maker=ada)


async def test_senseless_tokens_are_refused(world: World, ada: Caller) -> None:
    with pytest.raises(InvalidRequest):
        await make(world, None, Grant(Role.VIEWER, operator=True))
    with pytest.raises(InvalidRequest):
        await make(world, ada, expires_at=world.clock.now_ms())
    with pytest.raises(UnknownOrganization):
        await world.tokens.make("nowhere", ADMIN, name="t", maker=None)


async def test_tokens_of_another_organization_are_unknown(world: World, ada: Caller) -> None:
    token, _ = await world.tokens.make("globex", ADMIN, name="t", maker=None)
    for token_id in (token.id, "tok_none", ""):
        with pytest.raises(UnknownToken):
            await world.tokens.revoke(token_id, organization="acme", actor=ada)


async def test_the_last_admin_stays(world: World, ada: Caller) -> None:
    with pytest.raises(LastAdmin):
        await world.members.put("acme", "ada", Role.APPROVER, actor=ada)
    with pytest.raises(LastAdmin):
        await world.members.remove("acme", "ada", actor=ada)


async def test_two_admins_cannot_remove_each_other_at_once(world: World, ada: Caller) -> None:
    await world.user("bob", {"acme": Role.ADMIN})
    results = await asyncio.gather(
        world.members.remove("acme", "ada", actor=ada),
        world.members.remove("acme", "bob", actor=ada),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["LastAdmin", "NoneType"]


async def test_members_that_are_not_there(world: World, ada: Caller) -> None:
    await world.user("carol", {"globex": Role.ADMIN})
    for name in ("nobody", "carol", "NOT A NAME", "\x00"):
        with pytest.raises(UnknownMember):
            await world.members.remove("acme", name, actor=ada)
    with pytest.raises(InvalidRequest):
        await world.members.put("acme", "Not A Name", Role.VIEWER, actor=ada)
    with pytest.raises(UnknownUser):
        await world.members.revoke_user("nobody")


async def test_a_closed_organization_lets_nobody_in_and_can_be_opened(
    world: World, ada: Caller
) -> None:
    _, secret = await make(world, None)
    await world.members.close_organization("acme")
    assert await world.credentials.of_token(secret) is None
    caller = await world.credentials.of_session(await world.cookie("ada"))
    assert caller is not None
    assert caller.organizations == {}
    await come_back(world, "ada")
    assert await world.credentials.of_token(secret) is None


async def test_an_organization_is_made_once(world: World, ada: Caller) -> None:
    with pytest.raises(NameTaken):
        await world.members.make_organization("acme")


@pytest.mark.parametrize(
    "step", ["accounts.add_user", "accounts.sign_in.add_link", "accounts.put_member", "unit.close"]
)
async def test_a_crash_leaves_no_half_made_member(world: World, ada: Caller, step: str) -> None:
    before = await history(world)
    failpoints.arm(step, "raise@1")
    with pytest.raises(FailpointError):
        await world.members.welcome("bob", "acme", Role.MEMBER)
    assert await repo.user_named(world.db, "bob") is None
    assert await history(world) == before


@pytest.mark.parametrize("step", ["accounts.add_token", "unit.close"])
async def test_a_crash_leaves_no_half_made_token(world: World, ada: Caller, step: str) -> None:
    failpoints.arm(step, "raise@1")
    with pytest.raises(FailpointError):
        await make(world, ada)
    assert await repo.tokens(world.db, None, before=None, limit=None) == []
