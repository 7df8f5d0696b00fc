"""Sessions, links and failed attempts, on a real database and a clock moved by hand."""

import asyncio

import pytest

from accounts.world import PASSWORD, World
from safelight.accounts import repo
from safelight.accounts.access import Role
from safelight.accounts.guard import Credentials
from safelight.accounts.known import KnownCallers
from safelight.accounts.sign_in.flow import Opened, WrongPassword
from safelight.accounts.sign_in.links import DeadLink, make_link
from safelight.errors import InvalidRequest, RateLimited
from safelight.infra import failpoints
from safelight.infra.bus import Bus
from safelight.infra.failpoints import FailpointError
from safelight.testing.waiting import until


@pytest.fixture
async def ada(world: World) -> str:
    await world.organization("acme", "globex")
    return await world.user("ada", {"acme": Role.ADMIN, "globex": Role.VIEWER})


async def sessions(world: World) -> int:
    count: int = await world.db.fetchval("SELECT count(*) FROM sessions")
    return count


async def try_password(
    world: World, password: str, name: str = "ada", address: str | None = "192.0.2.7"
) -> str:
    opened = await world.sign_in.with_password(name, password, address=address, cookie=None)
    return opened.cookie


async def test_a_password_opens_a_session(world: World, ada: str) -> None:
    caller = await world.credentials.of_session(await world.cookie("ada"))
    assert caller is not None
    assert (caller.kind, caller.id, caller.name) == ("user", ada, "ada")
    assert caller.organizations == {"acme": Role.ADMIN, "globex": Role.VIEWER}
    assert not caller.operator


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD + " ", "\ud800", "a" * 100_000, "\x00"])
async def test_a_wrong_password_opens_nothing(world: World, ada: str, password: str) -> None:
    with pytest.raises(WrongPassword):
        await try_password(world, password)
    assert await sessions(world) == 0


@pytest.mark.parametrize("name", ["nobody", "", "ada\x00", "ADA", "'; DROP TABLE users; --"])
async def test_an_unknown_user_looks_like_a_wrong_password(
    world: World, ada: str, name: str
) -> None:
    with pytest.raises(WrongPassword):
        await try_password(world, PASSWORD, name)


async def test_accents_may_be_typed_either_way(world: World) -> None:
    await world.user("zoe", password="caf\u00e9 caf\u00e9 caf\u00e9")
    assert await try_password(world, "cafe\u0301 cafe\u0301 cafe\u0301", "zoe")


async def test_only_digests_are_stored(world: World, ada: str) -> None:
    cookie = await world.cookie("ada")
    link = await make_link(world.db, world.ids, ada, world.clock.now_ms())
    secret = await world.token("acme", Role.VIEWER)
    stored = ""
    for table in ("sessions", "sign_in_links", "tokens", "users"):
        stored += str([tuple(row) for row in await world.db.fetch(f"SELECT * FROM {table}")])
    for plain in (cookie, link.partition("=")[2], secret, PASSWORD):
        assert plain not in stored
        assert plain.encode().hex() not in stored


async def test_signing_in_ends_the_session_the_browser_brought(world: World, ada: str) -> None:
    old = await world.cookie("ada")
    new = (await world.sign_in.with_password("ada", PASSWORD, address=None, cookie=old)).cookie
    assert new != old
    assert await world.credentials.of_session(old) is None
    assert await world.credentials.of_session(new)


async def test_a_session_slides_and_is_written_once_an_hour(world: World, ada: str) -> None:
    cookie = await world.cookie("ada")
    started = world.clock.now_ms()

    async def seen_after(minutes: float) -> int:
        world.clock.advance(minutes=minutes)
        assert await world.credentials.of_session(cookie)
        seen: int = await world.db.fetchval("SELECT seen_at FROM sessions")
        return (seen - started) // 60_000

    assert [await seen_after(59), await seen_after(1), await seen_after(30)] == [0, 60, 60]
    for _ in range(3):
        world.clock.advance(days=29)
        assert await world.credentials.of_session(cookie)


async def test_a_session_ends_after_ninety_days_however_often_it_was_used(
    world: World, ada: str
) -> None:
    cookie = await world.cookie("ada")
    for _ in range(89):
        world.clock.advance(days=1)
        assert await world.credentials.of_session(cookie)
    world.clock.advance(days=1)
    assert await world.credentials.of_session(cookie) is None


async def test_a_session_unused_for_thirty_days_has_ended(world: World, ada: str) -> None:
    cookie = await world.cookie("ada")
    world.clock.advance(days=30)
    assert await world.credentials.of_session(cookie) is None
    await world.cookie("ada")
    assert await sessions(world) == 1, "signing in sweeps what expired"


async def test_another_secret_key_ends_every_session(world: World, ada: str) -> None:
    cookie = await world.cookie("ada")
    known = KnownCallers(Bus(world.db, "other"))
    other = Credentials(world.db, world.clock, "z" * 32, known)
    assert await other.of_session(cookie) is None


@pytest.mark.parametrize("cookie", ["", "x", "\ud800", "a" * 100_000, "\x00"])
async def test_a_made_up_cookie_is_nobodys(world: World, ada: str, cookie: str) -> None:
    assert await world.credentials.of_session(cookie) is None


async def test_out_ends_this_session_only(world: World, ada: str) -> None:
    one, other = await world.cookie("ada"), await world.cookie("ada")
    await world.sign_in.out(one)
    assert await world.credentials.of_session(one) is None
    assert await world.credentials.of_session(other)


async def test_a_link_works_once(world: World, ada: str) -> None:
    code = (await make_link(world.db, world.ids, ada, world.clock.now_ms())).removeprefix(
        "/login?code="
    )
    results = await asyncio.gather(
        *(world.sign_in.with_code(code, cookie=None) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(result, Opened) for result in results) == 1
    assert sum(isinstance(result, DeadLink) for result in results) == 3
    assert await sessions(world) == 1


async def test_a_link_works_for_a_day(world: World, ada: str) -> None:
    codes = [
        (await make_link(world.db, world.ids, ada, world.clock.now_ms()))[12:] for _ in range(2)
    ]
    world.clock.advance(hours=23.9)
    await world.sign_in.with_code(codes[0], cookie=None)
    world.clock.advance(hours=0.1)
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(codes[1], cookie=None)


@pytest.mark.parametrize(
    "step", ["use_link", "keep_user", "purge_expired", "add_session", "renew_device"]
)
async def test_a_crash_does_not_use_a_link_up(world: World, ada: str, step: str) -> None:
    code = (await make_link(world.db, world.ids, ada, world.clock.now_ms()))[12:]
    failpoints.arm(f"accounts.sign_in.{step}", "raise@1")
    with pytest.raises(FailpointError):
        await world.sign_in.with_code(code, cookie=None)
    assert await sessions(world) == 0
    await world.sign_in.with_code(code, cookie=None)
    assert await sessions(world) == 1


async def test_refused_attempts_do_not_lengthen_the_wait(world: World, ada: str) -> None:
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await try_password(world, "wrong")
    for _ in range(5):
        world.clock.advance(minutes=2)
        with pytest.raises(RateLimited):
            await try_password(world, "wrong")
    world.clock.advance(minutes=5)
    assert await try_password(world, PASSWORD)


async def test_the_first_password_needs_no_old_one(world: World) -> None:
    user_id = await world.user("new", password=None)
    with pytest.raises(WrongPassword):
        await try_password(world, "", "new")
    opened = await world.sign_in.change_password(user_id, current=None, new=PASSWORD)
    assert await world.credentials.of_session(opened.cookie)
    assert await try_password(world, PASSWORD, "new")


async def test_changing_the_password_ends_every_other_session(world: World, ada: str) -> None:
    old = [await world.cookie("ada") for _ in range(2)]
    opened = await world.sign_in.change_password(ada, current=PASSWORD, new="another password")
    assert [await world.credentials.of_session(one) for one in old] == [None, None]
    assert await world.credentials.of_session(opened.cookie)
    with pytest.raises(WrongPassword):
        await try_password(world, PASSWORD)


@pytest.mark.parametrize("current", [None, "", "wrong"])
async def test_a_stolen_session_cannot_change_the_password(
    world: World, ada: str, current: str | None
) -> None:
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await world.sign_in.change_password(ada, current=current, new="another password")
    with pytest.raises(RateLimited):
        await world.sign_in.change_password(ada, current=PASSWORD, new="another password")


@pytest.mark.parametrize("password", ["", "short", "x" * 9, "x" * 257])
async def test_a_bad_new_password_is_refused(world: World, ada: str, password: str) -> None:
    with pytest.raises(InvalidRequest, match="10 to 256"):
        await world.sign_in.change_password(ada, current=PASSWORD, new=password)


async def test_the_username_is_no_password(world: World) -> None:
    user_id = await world.user("maximilian", password=None)
    with pytest.raises(InvalidRequest, match="other than your username"):
        await world.sign_in.change_password(user_id, current=None, new="Maximilian")


@pytest.mark.parametrize(
    "step",
    [
        "set_password",
        "sign_in.end_sessions_of",
        "sign_in.end_links_of",
        "sign_in.forget_devices_of",
        "sign_in.add_session",
    ],
)
async def test_a_crash_leaves_the_old_password(world: World, ada: str, step: str) -> None:
    old = await world.cookie("ada")
    failpoints.arm(f"accounts.{step}", "raise@1")
    with pytest.raises(FailpointError):
        await world.sign_in.change_password(ada, current=PASSWORD, new="another password")
    assert await world.credentials.of_session(old)
    assert await world.cookie("ada")


async def test_a_password_changed_meanwhile_opens_nothing(world: World, ada: str) -> None:
    """The old password was right when it was checked, and no longer when the session is made."""
    async with world.db.transaction() as connection:
        await repo.set_password(connection, ada, "changed")
        attempt = asyncio.create_task(try_password(world, PASSWORD))
        await waiting_for_a_lock(world)
    with pytest.raises(WrongPassword):
        await attempt
    assert await sessions(world) == 0


async def test_revoking_ends_everything_even_if_the_name_comes_back(world: World, ada: str) -> None:
    cookie = await world.cookie("ada")
    code = (await make_link(world.db, world.ids, ada, world.clock.now_ms()))[12:]
    await world.members.revoke_user("ada")
    assert await world.credentials.of_session(cookie) is None
    with pytest.raises(WrongPassword):
        await world.cookie("ada")
    await world.members.welcome("ada", "acme", Role.VIEWER)
    assert await world.credentials.of_session(cookie) is None
    with pytest.raises(DeadLink):
        await world.sign_in.with_code(code, cookie=None)
    with pytest.raises(WrongPassword):
        await world.cookie("ada")


async def test_an_old_link_used_while_a_password_is_chosen_opens_nothing_afterwards(
    world: World, ada: str
) -> None:
    """Neither waits for ever for the other, whoever is first."""
    code = (await make_link(world.db, world.ids, ada, world.clock.now_ms()))[12:]
    armed = failpoints.arm("accounts.sign_in.end_links_of", "hold@1")
    choosing = asyncio.create_task(
        world.sign_in.change_password(ada, current=PASSWORD, new="another password")
    )
    await armed.passed()
    thief = asyncio.create_task(world.sign_in.with_code(code, cookie=None))
    await waiting_for_a_lock(world)
    failpoints.disarm("accounts.sign_in.end_links_of")
    await choosing
    with pytest.raises(DeadLink):
        await thief
    assert await sessions(world) == 1


async def waiting_for_a_lock(world: World) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await until(lambda: world.db.fetchval(query))
