"""An empty database gets its first organization, operator and way in; exactly once."""

import asyncio

import pytest
import structlog

from accounts.world import PASSWORD, HandClock, World
from safelight.accounts import repo
from safelight.accounts.access import Role
from safelight.accounts.first_start import first_start, secret_key
from safelight.infra import failpoints
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import RandomIds
from safelight.settings import Settings, load

TOKEN = "slt_" + "b" * 32
STEPS = [
    "accounts.add_organization",
    "accounts.add_user",
    "accounts.put_member",
    "accounts.add_token",
    "accounts.sign_in.add_link",
]


def settings(token: str | None = None) -> Settings:
    return load({"bootstrap_token": token})


async def start(world: World, token: str | None = None) -> str | None:
    return await first_start(world.units, settings(token), world.ids)


async def counts(db: Database) -> list[int]:
    tables = ("organizations", "users", "memberships", "tokens", "sign_in_links")
    return [await db.fetchval(f"SELECT count(*) FROM {table}") for table in tables]


async def sign_in(world: World, link: str | None) -> str:
    assert link is not None
    code = link.removeprefix("/login?code=")
    return (await world.sign_in.with_code(code, cookie=None)).cookie


async def test_the_link_signs_the_operator_in(world: World) -> None:
    link = await start(world)
    assert link is not None
    assert link.startswith("/login?code=")
    caller = await world.credentials.of_session(await sign_in(world, link))
    assert caller is not None
    assert (caller.name, caller.operator) == ("operator", True)
    assert caller.organizations == {"default": Role.ADMIN}
    assert await counts(world.db) == [1, 1, 1, 0, 1]


async def test_the_bootstrap_token_is_an_operators(world: World) -> None:
    assert await start(world, TOKEN)
    caller = await world.credentials.of_token(TOKEN)
    assert caller is not None
    assert caller.operator
    assert caller.organizations == {"default": Role.ADMIN}


async def test_the_same_token_again_does_nothing(world: World) -> None:
    await start(world, TOKEN)
    before = await counts(world.db)
    with structlog.testing.capture_logs() as logs:
        await start(world, TOKEN)
    assert logs == []
    assert (await counts(world.db))[:4] == before[:4]


async def test_another_token_is_ignored_with_a_warning(world: World) -> None:
    await start(world, TOKEN)
    other = "slt_" + "c" * 32
    with structlog.testing.capture_logs() as logs:
        await start(world, other)
    assert [line["log_level"] for line in logs] == ["warning"]
    assert "SAFELIGHT_BOOTSTRAP_TOKEN is ignored" in logs[0]["event"]
    assert other not in str(logs)
    assert await world.credentials.of_token(other) is None
    assert await world.credentials.of_token(TOKEN)


async def test_a_revoked_bootstrap_token_stays_revoked(world: World) -> None:
    await start(world, TOKEN)
    [token] = await repo.tokens(world.db, None, before=None, limit=None)
    await world.tokens.revoke(token.id, organization=None, actor=None)
    await start(world, TOKEN)
    assert await world.credentials.of_token(TOKEN) is None


async def test_every_start_prints_a_link_until_there_is_a_password(world: World) -> None:
    first, second = await start(world), await start(world)
    assert first != second
    assert await sign_in(world, first), "a later start does not end it"
    world.clock.advance(hours=24)
    caller = await world.credentials.of_session(await sign_in(world, await start(world)))
    assert caller is not None
    assert await start(world), "one that was used is no password"
    await world.sign_in.change_password(caller.id, current=None, new=PASSWORD)
    world.clock.advance(hours=24)
    assert await start(world) is None


async def test_a_revoked_operator_gets_no_link(world: World) -> None:
    await start(world)
    await world.members.revoke_user("operator")
    assert await start(world) is None


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_at_any_step_leaves_nothing(world: World, step: str) -> None:
    failpoints.arm(step, "raise@1")
    with pytest.raises(FailpointError):
        await start(world, TOKEN)
    assert await counts(world.db) == [0, 0, 0, 0, 0]
    assert await start(world, TOKEN)
    assert await counts(world.db) == [1, 1, 1, 1, 1]


async def test_starting_together_sets_up_once(database: Database) -> None:
    units, ids = Units(database, Bus(database, "test"), HandClock()), RandomIds()
    links = await asyncio.gather(*(first_start(units, settings(TOKEN), ids) for _ in range(5)))
    assert len(set(links)) == len(links) == (await counts(database))[4]
    assert (await counts(database))[:4] == [1, 1, 1, 1]


async def test_every_process_gets_the_same_secret_key(database: Database) -> None:
    ids = RandomIds()
    keys = await asyncio.gather(*(secret_key(database, settings(), ids) for _ in range(5)))
    assert len(set(keys)) == 1
    assert len(keys[0]) >= 32
    assert await secret_key(database, settings(), ids) == keys[0]


async def test_a_secret_key_of_the_settings_wins(database: Database) -> None:
    given = load({"secret_key": "s" * 32})
    assert await secret_key(database, given, RandomIds()) == "s" * 32
    assert await database.fetchval("SELECT count(*) FROM instance") == 0
