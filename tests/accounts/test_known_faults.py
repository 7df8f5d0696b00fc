"""News that is lost, connections that die or fall silent, and answers that come too late: what was
revoked is refused all the same."""

import asyncio
import math
from typing import Any

import pytest

from accounts.processes import READS, Asks, caller, process
from accounts.world import World
from faults.relay import relay
from safelight.accounts import repo
from safelight.accounts.access import Grant, Role
from safelight.accounts.known import CREDENTIALS, TRUSTED_SECONDS
from safelight.infra import bus as bus_module
from safelight.infra.connecting import connect
from safelight.infra.db import AWAY
from safelight.testing.waiting import told_by, until

REVOKE = "UPDATE tokens SET revoked_at = 1"


async def a_token(world: World) -> str:
    await world.organization("acme")
    return await world.token("acme", Role.MEMBER)


async def kill_listener(world: World, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """It comes back when it is let."""
    let = asyncio.Event()

    async def later(*given: Any, **more: Any) -> Any:
        await let.wait()
        return await connect(*given, **more)

    monkeypatch.setattr(bus_module, "connect", later)
    ended = await world.db.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"
    )
    assert ended == 1
    await until(lambda: world.bus.behind() == math.inf)
    return let


async def test_nothing_kept_is_served_while_nobody_listens(
    here: World, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await a_token(here)
    await asks.until_known(here, token)
    await kill_listener(here, monkeypatch)
    for _ in range(2):
        found, asked = await asks.of(here, token)
        assert (found is not None, asked) == (True, 1)
    await here.db.execute(REVOKE)
    assert await caller(here, token) is None


async def test_nothing_kept_before_is_served_when_it_listens_again(
    here: World, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what was learned meanwhile."""
    token, other = await a_token(here), await here.token("acme", Role.VIEWER)
    await asks.until_known(here, token)
    let = await kill_listener(here, monkeypatch)
    assert await caller(here, other)
    await here.db.execute(REVOKE)
    let.set()
    await until(lambda: here.bus.behind() < TRUSTED_SECONDS)
    assert (await caller(here, token), await caller(here, other)) == (None, None)


async def test_what_was_learned_before_it_first_listened_is_not_served(world: World) -> None:
    """The database was slow to let it listen, and requests came."""
    token = await a_token(world)
    assert await caller(world, token)
    await world.db.execute(REVOKE)
    await world.bus.start()
    assert await caller(world, token) is None
    await world.bus.stop()


async def test_a_listener_that_fell_silent_is_not_believed(
    database_url: str, here: World, asks: Asks
) -> None:
    token = await a_token(here)
    async with relay(database_url) as (line, through), process(through, "there") as there:
        await asks.until_known(there, token)
        line.silence_at(b"SELECT 1")  # the listener's own
        await line.fell_silent.wait()
        await here.db.execute(REVOKE)
        await until(lambda: is_refused(there, token))


async def is_refused(world: World, secret: str) -> bool:
    return await caller(world, secret) is None


async def test_without_a_database_nobody_is_known(
    database_url: str, here: World, asks: Asks
) -> None:
    """As before there was anything kept: the request is answered 503."""
    token = await a_token(here)
    async with relay(database_url) as (line, through), process(through, "there") as there:
        await asks.until_known(there, token)
        line.refuse()
        line.cut()
        await until(lambda: there.bus.behind() == math.inf)
        with pytest.raises(AWAY):
            await caller(there, token)
        await here.db.execute(REVOKE)
        line.forward()
        await until(lambda: there.bus.behind() < TRUSTED_SECONDS)
        assert await caller(there, token) is None


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("kind", ["token", "session"])
async def test_an_answer_from_before_the_change_is_not_kept_after_it(
    here: World, there: World, monkeypatch: pytest.MonkeyPatch, kind: str, where: str
) -> None:
    """A request has read the row; the revocation commits and is heard; then the request goes on."""
    await here.organization("acme")
    await here.user("ada", {"acme": Role.ADMIN})
    await here.user("bob", {"acme": Role.ADMIN})
    cookie = await here.cookie("ada")
    ada = await caller(here, cookie)
    _, token = await here.tokens.make("acme", Grant(Role.ADMIN), name="t", maker=ada)
    secret, world = (token if kind == "token" else cookie), (here if where == "here" else there)
    have_read, go_on = asyncio.Event(), asyncio.Event()
    name = READS[kind == "session"]
    statement = getattr(repo, name)

    async def held(*given: Any, **more: Any) -> Any:
        found = await statement(*given, **more)
        have_read.set()
        await go_on.wait()
        return found

    world.credentials.known._kept.clear()
    monkeypatch.setattr(repo, name, held)
    request = asyncio.create_task(caller(world, secret))
    await have_read.wait()
    monkeypatch.setattr(repo, name, statement)
    with told_by(world.bus, CREDENTIALS) as news:
        await here.members.revoke_user("ada")
        await news.next()
    go_on.set()
    assert await request is not None, "it came before the change"
    assert await caller(world, secret) is None
