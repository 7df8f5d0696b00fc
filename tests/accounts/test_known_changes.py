"""Whatever changes what a credential grants is felt: at once where it was done, and by the database's
own news everywhere else."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from accounts.processes import Asks, caller
from accounts.world import PASSWORD, World
from safelight.accounts.access import Caller, Grant, Role
from safelight.testing.waiting import until

TABLES = ("tokens", "users", "memberships", "sessions")
OPERATOR = Grant(Role.ADMIN, operator=True)


@dataclass
class Scene:
    """Ada is an admin of acme and an operator, with two browsers, a token and that one's token; bob
    is another admin. The command line's token is nobody's."""

    world: World
    secrets: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    async def open(self) -> "Scene":
        world = self.world
        await world.organization("acme", "globex")
        self.ids["ada"] = await world.user("ada", {"acme": Role.ADMIN}, operator=True)
        self.ids["bob"] = await world.user("bob", {"acme": Role.ADMIN, "globex": Role.ADMIN})
        for browser in ("browser", "other browser"):
            self.secrets[browser] = await world.cookie("ada")
        self.secrets["bob's"] = await world.cookie("bob")
        await self._token("token", await caller(world, self.secrets["browser"]))
        await self._token("child", await caller(world, self.secrets["token"]))
        await self._token("nobody's", None)
        return self

    async def _token(self, name: str, maker: Caller | None) -> None:
        made, secret = await self.world.tokens.make("acme", OPERATOR, name=name, maker=maker)
        self.secrets[name], self.ids[name] = secret, made.id

    async def bob(self) -> Caller:
        found = await caller(self.world, self.secrets["bob's"])
        assert found
        return found

    async def revoke(self, name: str) -> None:
        await self.world.tokens.revoke(self.ids[name], organization=None, actor=None)

    async def put(self, role: Role) -> None:
        await self.world.members.put("acme", "ada", role, actor=await self.bob())

    async def remove(self) -> None:
        await self.world.members.remove("acme", "ada", actor=await self.bob())

    async def accept(self) -> None:
        """In one browser, whose session ends with it."""
        bob = await self.bob()
        put = await self.world.members.put("globex", "ada", Role.VIEWER, actor=bob)
        assert isinstance(put, tuple)
        code = put[1].removeprefix("/login?code=")
        await self.world.sign_in.with_code(code, cookie=self.secrets["browser"])

    async def sign_in_again(self) -> None:
        cookie = self.secrets["browser"]
        await self.world.sign_in.with_password("ada", PASSWORD, address=None, cookie=cookie)

    async def change_password(self) -> None:
        await self.world.sign_in.change_password(
            self.ids["ada"], current=PASSWORD, new="another horse battery"
        )

    async def make_operator(self) -> None:
        await self.world.members.welcome("bob", "acme", Role.ADMIN, operator=True, existing=True)


def gone(found: Caller | None) -> bool:
    return found is None


def holds(**roles: Role) -> Callable[[Caller | None], bool]:
    return lambda found: found is not None and found.organizations == roles


Change = tuple[str, Callable[[Scene], Awaitable[None]], Callable[[Caller | None], bool]]
CHANGES: dict[str, Change] = {
    "a token is revoked": ("token", lambda s: s.revoke("token"), gone),
    "nobody's token is revoked": ("nobody's", lambda s: s.revoke("nobody's"), gone),
    "what made it is revoked": ("child", lambda s: s.revoke("token"), gone),
    "its maker is lowered": ("token", lambda s: s.put(Role.VIEWER), holds(acme=Role.VIEWER)),
    "its maker's maker is lowered": ("child", lambda s: s.put(Role.MEMBER), holds(acme=Role.MEMBER)),
    "its maker is removed": ("token", Scene.remove, gone),
    "its maker is revoked": ("child", lambda s: s.world.members.revoke_user("ada"), gone),
    "a member is lowered": ("browser", lambda s: s.put(Role.VIEWER), holds(acme=Role.VIEWER)),
    "a member is removed": ("browser", Scene.remove, holds()),
    "a user is revoked": ("browser", lambda s: s.world.members.revoke_user("ada"), gone),
    "an invitation is accepted": (
        "other browser", Scene.accept, holds(acme=Role.ADMIN, globex=Role.VIEWER),
    ),
    "a session is replaced by an invitation's": ("browser", Scene.accept, gone),
    "a session is replaced by the next": ("browser", Scene.sign_in_again, gone),
    "signed out": ("browser", lambda s: s.world.sign_in.out(s.secrets["browser"]), gone),
    "the password changes": ("other browser", Scene.change_password, gone),
    "an operator is made": ("bob's", Scene.make_operator, lambda c: bool(c and c.operator)),
    "an organization is closed": (
        "browser", lambda s: s.world.members.close_organization("acme"), holds(),
    ),
    "a token's organization is closed": (
        "nobody's", lambda s: s.world.members.close_organization("acme"), gone,
    ),
}  # fmt: skip

# What somebody types into the database, or a server of another version does.
BY_HAND: dict[str, tuple[str, str, Callable[[Caller | None], bool]]] = {
    "a token revoked": ("token", "UPDATE tokens SET revoked_at = 1", gone),
    "a token lowered": (
        "nobody's", "UPDATE tokens SET role = 'viewer', operator = false", holds(acme=Role.VIEWER),
    ),
    "a token deleted": ("child", "DELETE FROM tokens WHERE name = 'child'", gone),
    "an operator no more": (
        "token", "UPDATE users SET operator = false", lambda c: bool(c and not c.operator),
    ),
    "a user revoked": ("browser", "UPDATE users SET revoked_at = 1", gone),
    "a role": ("browser", "UPDATE memberships SET role = 'viewer'", holds(acme=Role.VIEWER)),
    "a membership gone": ("token", "DELETE FROM memberships", gone),
    "a membership more": (
        "browser",
        "INSERT INTO memberships SELECT 'globex', id, 'member', 1 FROM users WHERE username = 'ada'",
        holds(acme=Role.ADMIN, globex=Role.MEMBER),
    ),
    "a session gone": ("browser", "DELETE FROM sessions", gone),
    "a session ended": ("browser", "UPDATE sessions SET expires_at = 1", gone),
    "a session made older": ("browser", "UPDATE sessions SET created_at = 1", gone),
    "a session given to another": (
        "browser",
        "UPDATE sessions SET seen_at = seen_at + 1, user_id = (SELECT id FROM users WHERE username = 'bob')",
        lambda c: bool(c and c.name == "bob"),
    ),
}  # fmt: skip


async def without_triggers(world: World) -> None:
    for table in TABLES:
        await world.db.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")


@pytest.mark.parametrize("change", CHANGES)
async def test_felt_at_once_where_it_is_made(here: World, asks: Asks, change: str) -> None:
    """Without waiting for anything the database says."""
    scene = await Scene(here).open()
    await without_triggers(here)
    name, make, felt = CHANGES[change]
    assert not felt(await asks.until_known(here, scene.secrets[name]))
    await make(scene)
    assert felt(await caller(here, scene.secrets[name]))


@pytest.mark.parametrize("change", CHANGES)
async def test_felt_in_another_process(here: World, there: World, asks: Asks, change: str) -> None:
    """By what the database says alone: whoever made it dies right after the commit, or believes to
    be without company, and announces nothing."""
    scene = await Scene(here).open()
    name, make, felt = CHANGES[change]
    here.bus._send_soon = lambda *_: None  # type: ignore[method-assign]
    assert not felt(await asks.until_known(there, scene.secrets[name]))
    await make(scene)
    await until(lambda: feels(there, scene.secrets[name], felt))


@pytest.mark.parametrize("change", BY_HAND)
async def test_felt_whoever_writes(here: World, asks: Asks, change: str) -> None:
    scene = await Scene(here).open()
    name, statement, felt = BY_HAND[change]
    assert not felt(await asks.until_known(here, scene.secrets[name]))
    await here.db.execute(statement)
    await until(lambda: feels(here, scene.secrets[name], felt))


async def feels(world: World, secret: str, felt: Callable[[Caller | None], bool]) -> bool:
    return felt(await caller(world, secret))


async def test_the_next_request_after_the_answer_is_refused(here: World, asks: Asks) -> None:
    scene = await Scene(here).open()
    path = f"/api/organizations/acme/tokens/{scene.ids['token']}"
    async with (
        here.program(scene.secrets["token"]) as holder,
        here.browser(scene.secrets["bob's"]) as admin,
    ):
        await asks.until_known(here, scene.secrets["token"])
        assert (await holder.get("/api/me")).status_code == 200
        assert (await admin.delete(path)).status_code == 204
        assert (await holder.get("/api/me")).status_code == 401


async def test_a_command_elsewhere_is_felt(here: World, asks: Asks, database_url: str) -> None:
    scene = await Scene(here).open()
    await asks.until_known(here, scene.secrets["token"])
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "safelight", "tokens", "revoke", scene.ids["token"],
        env=os.environ | {"SAFELIGHT_DATABASE_URL": database_url},
    )  # fmt: skip
    assert await command.wait() == 0
    await until(lambda: feels(here, scene.secrets["token"], gone))


async def test_what_changes_nothing_is_no_news(here: World, there: World, asks: Asks) -> None:
    """Of others: sessions that are seen again, who comes in, new tokens, statements that find
    nothing."""
    scene = await Scene(here).open()
    await asks.until_known(there, scene.secrets["token"])
    here.bus._send_soon = lambda *_: None  # type: ignore[method-assign]
    await until(lambda: here.bus._sending is None)
    opened = time.monotonic()
    await until(lambda: there.bus._heard_all > opened)  # and of the opening all was
    times = there.credentials.known._times
    here.clock.advance(hours=2)
    await caller(here, scene.secrets["browser"])
    await here.user("carol", {})
    await here.cookie("carol")
    await here.token("acme", Role.VIEWER)
    for statement in (
        "DELETE FROM tokens WHERE id = 'none'",
        "UPDATE users SET operator = operator",
        "UPDATE memberships SET role = role",
    ):
        await here.db.execute(statement)
    committed = time.monotonic()
    await until(lambda: there.bus._heard_all > committed)  # whatever was said has been heard
    assert there.credentials.known._times == times + 1, "carol's password, which changes a user"
