"""Users the command line made who never came, tokens nobody named, and links to come in by."""

import pytest

from accounts.world import PASSWORD, World
from safelight.accounts import repo
from safelight.accounts.access import Caller, Grant, Role, as_actor
from safelight.accounts.invitations.invitations import SignInFirst
from safelight.accounts.sign_in.links import DeadLink


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("acme", "globex")
    await world.user("ada", {"acme": Role.ADMIN})
    return world


def code_in(link: str) -> str:
    return link.removeprefix("/login?code=")


async def test_a_user_who_never_came_ends_with_the_link(world: World) -> None:
    link = (await world.members.welcome("late", "acme", Role.MEMBER)).link
    await world.members.welcome("came", "acme", Role.MEMBER)
    came = (await world.members.welcome("came", "acme", Role.MEMBER)).link
    await world.sign_in.with_code(code_in(came), cookie=None)
    world.clock.advance(hours=24)
    await world.cookie("ada")  # whoever comes in sweeps
    assert await repo.user_named(world.db, "late") is None
    assert await repo.user_named(world.db, "came"), "although without a password"
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(code_in(link), cookie=None)
    told = await world.db.fetch(
        "SELECT type, data FROM activity WHERE subject = 'user:late' ORDER BY seq"
    )
    assert [row["type"] for row in told] == ["member_put", "member_removed"]
    assert told[1]["data"]["actor"] == {"type": "system", "name": "safelight"}


async def test_one_who_has_not_come_yet_comes_by_both_links(world: World) -> None:
    first = await world.members.welcome("dora", "acme", Role.MEMBER)
    second = await world.members.welcome("dora", "globex", Role.ADMIN)
    with pytest.raises(SignInFirst):
        await world.sign_in.with_code(code_in(second.link), cookie=None)
    opened = await world.sign_in.with_code(code_in(first.link), cookie=None)
    opened = await world.sign_in.with_code(code_in(second.link), cookie=opened.cookie)
    dora = await world.credentials.of_session(opened.cookie)
    assert dora is not None
    assert dora.organizations == {"acme": Role.MEMBER, "globex": Role.ADMIN}


async def test_a_name_nobody_came_for_is_free_again(world: World) -> None:
    await world.members.welcome("dora", "acme", Role.ADMIN)
    world.clock.advance(hours=24)
    await world.members.welcome("dora", "globex", Role.VIEWER)
    dora = await repo.user_named(world.db, "dora")
    assert dora is not None
    assert dora.roles == {"globex": Role.VIEWER}, "another person, perhaps"


async def test_an_invitation_does_not_meet_a_user_who_never_came(world: World) -> None:
    await world.members.welcome("dora", "globex", Role.ADMIN)
    world.clock.advance(hours=23)
    ada = await world.credentials.of_session(await world.cookie("ada"))
    assert ada is not None
    put = await world.members.put("acme", "dora", Role.MEMBER, actor=ada)
    assert isinstance(put, tuple)
    world.clock.advance(hours=1)
    opened = await world.sign_in.with_code(code_in(put[1]), cookie=None)
    dora = await world.credentials.of_session(opened.cookie)
    assert dora is not None
    assert dora.organizations == {"acme": Role.MEMBER}


async def test_the_operator_stays_and_so_does_whoever_lost_the_password(world: World) -> None:
    await world.members.welcome("ada", "acme", Role.ADMIN)
    world.clock.advance(days=2)
    await world.cookie("ada", PASSWORD)
    assert await repo.user_named(world.db, "ada")


async def named(world: World, name: str) -> Caller:
    _, secret = await world.tokens.make("acme", Grant(Role.APPROVER), name=name, maker=None)
    caller = await world.credentials.of_token(secret)
    assert caller is not None
    return caller


async def test_tokens_without_a_name_are_told_apart(world: World) -> None:
    """`command line` and `token` are what they are called where nobody names them."""
    tokens = [await named(world, name) for name in ("command line", "command line", "token", "ci")]
    assert [as_actor(token)["name"] for token in tokens] == [
        tokens[0].id, tokens[1].id, tokens[2].id, "ci",
    ]  # fmt: skip
    assert len({token.id for token in tokens}) == 4
