"""Guessing is slowed down, and nobody can shut somebody else out. Over HTTP, as browsers do it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from accounts.world import PASSWORD, World
from holding import until_waiting
from safelight.accounts.access import Role
from safelight.infra import failpoints

HOME, AWAY = "192.0.2.7", "198.51.100.1"


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("acme")
    for name in ("ada", "bob"):
        await world.user(name, {"acme": Role.MEMBER})
    return world


async def enter(
    client: httpx.AsyncClient, password: str = PASSWORD, name: str = "ada"
) -> httpx.Response:
    return await client.post("/login", data={"username": name, "password": password})


async def guess(world: World, times: int, name: str = "ada", address: str = AWAY) -> list[int]:
    async with world.browser(address=address) as client:
        return [(await enter(client, "wrong", name)).status_code for _ in range(times)]


async def test_ten_failures_of_one_user_from_one_address(world: World) -> None:
    assert await guess(world, 11) == [401] * 10 + [429]
    async with world.browser(address=AWAY) as client:
        world.clock.advance(minutes=2)
        refused = await enter(client)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "780")
        assert "Wait 13 minutes" in refused.text
        assert (await enter(client, name="bob")).status_code == 303, "only this user"
        world.clock.advance(minutes=13)
        assert (await enter(client)).status_code == 303


async def test_one_address_does_not_shut_a_user_out_at_another(world: World) -> None:
    await guess(world, 10)
    world.clock.advance(seconds=1)
    async with world.browser(address=HOME) as client:
        assert (await enter(client)).status_code == 303


async def test_guesses_from_everywhere_wait_longer_and_longer(world: World) -> None:
    waits = []
    for number in range(20):
        async with world.browser(address=f"203.0.113.{number}") as client:
            answer = await enter(client, "wrong")
            while answer.status_code == 429:
                waits.append(int(answer.headers["retry-after"]))
                world.clock.advance(seconds=waits[-1])
                answer = await enter(client, "wrong")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


async def test_a_browser_that_signed_in_before_always_gets_in(world: World) -> None:
    async with world.browser(address=AWAY) as known:
        assert (await enter(known)).status_code == 303
        await known.post("/logout")
        await guess(world, 11)
        for number in range(30):
            await guess(world, 2, address=f"203.0.113.{number}")
        for number in range(100):
            await guess(world, 1, name=f"user{number}")
        async with world.browser(address=AWAY) as stranger:
            assert (await enter(stranger)).status_code == 429
        assert (await enter(known)).status_code == 303
        assert (await enter(known, name="bob")).status_code == 429, "it is known for ada alone"


async def test_a_known_browser_has_ten_guesses_of_its_own(world: World) -> None:
    async with world.browser() as known, world.browser(address=HOME) as stranger:
        await enter(known)
        tried = [(await enter(known, "wrong")).status_code for _ in range(11)]
        assert tried == [401] * 10 + [429]
        assert (await enter(stranger)).status_code == 303, "nobody else pays for them"


async def test_an_address_has_a_hundred(world: World) -> None:
    statuses: Counter[int] = Counter()
    for number in range(12):
        statuses.update(await guess(world, 9, name=f"user{number}"))
    assert statuses == {401: 100, 429: 8}
    async with world.browser(address=AWAY) as client:
        assert (await enter(client)).status_code == 429
    async with world.browser(address=HOME) as client:
        assert (await enter(client)).status_code == 303


async def test_eighty_at_once_count_exactly(world: World) -> None:
    async def one(address: str) -> int:
        return (await guess(world, 1, address=address))[0]

    assert Counter(await asyncio.gather(*(one(AWAY) for _ in range(80)))) == {401: 10, 429: 70}
    world.clock.advance(minutes=15)
    spread = [one(f"203.0.113.{number}") for number in range(80)]
    assert Counter(await asyncio.gather(*spread)) == {401: 10, 429: 70}


async def test_changing_the_password_and_signing_in_do_not_count_together(world: World) -> None:
    async with world.browser(address=AWAY) as client:
        await enter(client)
        asked = {"password": "another password", "current": "wrong"}
        tried = [await client.post("/account/password", data=asked) for _ in range(11)]
        assert [answer.status_code for answer in tried] == [401] * 10 + [429]
        async with world.browser(address=AWAY) as stranger:
            assert (await enter(stranger)).status_code == 303
        await guess(world, 11)
        world.clock.advance(minutes=15)
        await guess(world, 11)
        asked["current"] = PASSWORD
        assert (await client.post("/account/password", data=asked)).status_code == 303


async def test_the_device_cookie(world: World) -> None:
    async with world.browser() as client:
        first = await enter(client)
        [cookie] = [c for c in first.headers.get_list("set-cookie") if "safelight_device=" in c]
        for part in ("HttpOnly", "SameSite=lax", "Path=/"):
            assert part in cookie
        value = client.cookies["safelight_device"]
        stored = str([tuple(r) for r in await world.db.fetch("SELECT * FROM sign_in_devices")])
        assert value not in stored
        assert value.encode().hex() not in stored
        await enter(client)
        assert client.cookies["safelight_device"] != value, "made anew at every sign-in"


async def test_a_planted_device_cookie_is_worth_nothing(world: World) -> None:
    async with world.browser() as bob, world.browser() as ada:
        await enter(bob, name="bob")
        planted = bob.cookies["safelight_device"]
        ada.cookies.set("safelight_device", planted)
        await enter(ada)
    await guess(world, 10)
    async with world.browser(address=AWAY) as client:
        client.cookies.set("safelight_device", planted)
        assert (await enter(client)).status_code == 429


async def test_two_people_at_one_browser_are_both_known(world: World) -> None:
    async with world.browser(address=AWAY) as client:
        for name in ("ada", "bob"):
            await enter(client, name=name)
        for name in ("ada", "bob"):
            await guess(world, 10, name=name)
        for name in ("ada", "bob"):
            assert (await enter(client, name=name)).status_code == 303


async def test_a_success_in_a_known_browser_takes_back_ones_own_failures(world: World) -> None:
    async with world.browser(address=AWAY) as known:
        await enter(known)
        for _ in range(2):
            tried = [(await enter(known, "wrong")).status_code for _ in range(9)]
            assert tried == [401] * 9
            assert (await enter(known)).status_code == 303
    assert await counted(world, "device:ada@%") == 0


async def test_whoever_shares_a_browser_does_not_wipe_anothers_count(world: World) -> None:
    async with shared_browser(world) as shared:
        tried = []
        for _ in range(3):
            tried += [(await enter(shared, "wrong")).status_code for _ in range(4)]
            assert (await enter(shared, name="bob")).status_code == 303
        assert tried == [401] * 10 + [429] * 2
        world.clock.advance(minutes=15)
        assert (await enter(shared)).status_code == 303


async def test_nor_with_a_guess_that_began_before(world: World) -> None:
    """It counts as a stranger's: the browser is known by another secret by now."""
    async with shared_browser(world) as shared:
        armed = failpoints.arm("accounts.sign_in.add_failure", "hold@1")
        guessing = asyncio.create_task(enter(shared, "wrong"))
        await armed.passed()
        assert (await enter(shared, name="bob")).status_code == 303
        failpoints.disarm("accounts.sign_in.add_failure")
        assert (await guessing).status_code == 401
    assert await counted(world, f"both:ada@{AWAY}") == 1


async def test_nor_with_a_guess_at_the_same_moment(world: World) -> None:
    async with shared_browser(world) as shared:
        armed = failpoints.arm("accounts.sign_in.clear_failures", "hold@1")
        entering = asyncio.create_task(enter(shared, name="bob"))
        await armed.passed()
        guessing = asyncio.create_task(enter(shared, "wrong"))
        await until_waiting(world.db, 1)
        failpoints.disarm("accounts.sign_in.clear_failures")
        assert (await entering).status_code == 303
        assert (await guessing).status_code == 401
    assert await counted(world, f"both:ada@{AWAY}") == 1


@asynccontextmanager
async def shared_browser(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """In which ada and bob have signed in."""
    async with world.browser(address=AWAY) as shared:
        for name in ("ada", "bob"):
            assert (await enter(shared, name=name)).status_code == 303
        yield shared


async def counted(world: World, subject: str) -> int:
    counting = "SELECT count(*) FROM sign_in_failures WHERE subject LIKE $1"
    return int(await world.db.fetchval(counting, subject))
