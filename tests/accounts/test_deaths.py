"""A death at any step of any change leaves everything as it was, and the change can be made again."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from accounts.world import PASSWORD, World
from points import points_of
from safelight.accounts.access import Caller, Grant, Role
from safelight.accounts.first_start import first_start, secret_key
from safelight.accounts.sign_in.links import make_link
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.settings import load

BOOTSTRAP = "slt_" + "b" * 32
# Failed attempts are left out: one counts from its beginning, whatever becomes of it.
TABLES = (
    "organizations", "users", "memberships", "tokens", "invitations", "sessions", "sign_in_links",
    "sign_in_devices", "instance", "activity", "token_uses",
)  # fmt: skip

Change = Callable[[], Awaitable[object]]


async def changes(world: World) -> AsyncIterator[Change]:
    """Every change there is, one after the other; what each needs is made before it is given."""
    members, tokens, sign_in = world.members, world.tokens, world.sign_in
    settings = load({"bootstrap_token": BOOTSTRAP})
    yield lambda: secret_key(world.db, settings, world.ids)
    yield lambda: first_start(world.units, settings, world.ids)
    yield lambda: members.make_organization("acme")
    yield lambda: tokens.make("acme", Grant(Role.ADMIN), name="a", maker=None)
    admin = await world.credentials.of_token(BOOTSTRAP)
    assert admin is not None
    yield lambda: members.put("default", "new", Role.MEMBER, actor=admin)
    code = await invited(world, "new", admin)
    yield lambda: sign_in.with_code(code, cookie=None)
    yield lambda: members.put("default", "new", Role.VIEWER, actor=admin)
    yield lambda: members.remove("default", "new", actor=admin)
    await invited(world, "new", admin)
    cookie = (await sign_in.with_code(await invited(world, "guest", admin), cookie=None)).cookie
    guest = await world.credentials.of_session(cookie)
    assert guest is not None
    await members.remove("default", "guest", actor=admin)
    await invited(world, "guest", admin)
    yield lambda: world.invitations.withdraw("default", "new", actor=admin)
    yield lambda: world.invitations.decline("default", user=guest)
    again = await invited(world, "guest", admin)
    yield lambda: sign_in.with_code(again, cookie=cookie)
    yield lambda: members.welcome("bob", "acme", Role.ADMIN, operator=True)
    token, _ = await tokens.make("acme", Grant(Role.VIEWER), name="b", maker=None)
    yield lambda: tokens.revoke(token.id, organization=None, actor=None)

    eve = await world.user("eve", {"acme": Role.MEMBER, "default": Role.VIEWER})
    link = await make_link(world.db, world.ids, eve, world.clock.now_ms())
    yield lambda: make_link(world.db, world.ids, eve, world.clock.now_ms())
    yield lambda: sign_in.with_code(link.removeprefix("/login?code="), cookie=None)
    old, new = await world.cookie("eve"), await world.cookie("eve")
    await world.user("ivy")
    ivys = await sign_in.with_password("ivy", PASSWORD, address=None, cookie=None)
    yield lambda: sign_in.with_password(
        "eve", PASSWORD, address=None, cookie=old, device=ivys.device
    )
    world.clock.advance(hours=2)
    yield lambda: world.credentials.of_session(new)
    yield lambda: world.credentials.of_token(BOOTSTRAP)
    [last] = [one for one in await world.sessions.of(eve) if one.seen_at == world.clock.now_ms()]
    yield lambda: world.sessions.end(eve, last.handle)
    mine = await world.cookie("eve")
    await world.cookie("eve")
    yield lambda: world.sessions.end_others(eve, mine)
    yield lambda: world.sessions.end_all(eve)
    new = await world.cookie("eve")
    yield lambda: sign_in.out(new)
    yield lambda: sign_in.change_password(eve, current=PASSWORD, new=PASSWORD)
    yield lambda: members.revoke_user("eve")
    yield lambda: members.close_organization("acme")


async def invited(world: World, username: str, admin: Caller) -> str:
    """The code of an invitation's link."""
    put = await world.members.put("default", username, Role.MEMBER, actor=admin)
    assert isinstance(put, tuple)
    return put[1].removeprefix("/login?code=")


async def everything(world: World) -> dict[str, list[str]]:
    return {
        table: [row[0] for row in await world.db.fetch(f"SELECT t::text FROM {table} t ORDER BY 1")]
        for table in TABLES
    }


@pytest.mark.parametrize("point", [*points_of("accounts."), "unit.close"])
async def test_a_death_at_any_step(world: World, point: str) -> None:
    deaths = 0
    async for change in changes(world):
        before = await everything(world)
        failpoints.arm(point, "raise")
        try:
            await change()
        except FailpointError:
            deaths += 1
            assert await everything(world) == before
            failpoints.disarm(point)
            await change()
            assert await everything(world) != before
        finally:
            failpoints.disarm(point)
    assert deaths, "nothing reached it"
