"""What is kept in mind of a credential, for how long, and that it costs no statement."""

import asyncio
from typing import Any

import pytest

from accounts.processes import Asks
from accounts.world import World
from safelight.accounts import known as module
from safelight.accounts.access import Caller, Grant, Role
from safelight.accounts.known import LONGEST_MS, KnownCallers
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.infra.bus import Bus

ADA = Caller("user", "usr_ada", "ada", {"acme": Role.ADMIN})
HOUR_MS, DAY_MS = 3600 * 1000, 24 * 3600 * 1000


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    """One that has heard everything."""
    bus = Bus(None, "test")  # type: ignore[arg-type]  # nothing is sent
    monkeypatch.setattr(bus, "behind", lambda: 0.0)
    return bus


def keep(known: KnownCallers, digest: bytes, now: int = 0, until: int | None = None) -> None:
    known.keep(digest, ADA, known.asking(now), until)


# By itself


def test_what_was_kept_is_found_until_it_ends(bus: Bus) -> None:
    known = KnownCallers(bus)
    keep(known, b"short", now=1000, until=2000)
    keep(known, b"long", now=1000)
    keep(known, b"longer", now=1000, until=10 * LONGEST_MS)
    assert known.find(b"other", 1000) is None
    assert known.find(b"short", 1999) is ADA
    assert known.find(b"short", 2000) is None
    for digest in (b"long", b"longer"):
        assert known.find(digest, 999 + LONGEST_MS) is ADA
        assert known.find(digest, 1000 + LONGEST_MS) is None, "asked again every minute"
        assert known.find(digest, 999) is None, "the clock was set back"


@pytest.mark.parametrize("news", [("credentials", ""), ("credentials", "anything")])
def test_after_news_all_is_forgotten(bus: Bus, news: tuple[str, str]) -> None:
    known = KnownCallers(bus)
    for digest in (b"one", b"two"):
        keep(known, digest)
    bus.announce("other", "")
    assert known.find(b"one", 1)
    bus._deliver(*news)
    assert (known.find(b"one", 1), known.find(b"two", 1)) == (None, None)
    keep(known, b"one")
    assert known.find(b"one", 1)


def test_what_was_asked_before_the_news_is_not_kept_after_it(bus: Bus) -> None:
    known = KnownCallers(bus)
    asked = known.asking(0)
    bus._deliver(module.CREDENTIALS, "")
    known.keep(b"one", ADA, asked, None)
    assert known.find(b"one", 1) is None


def test_nothing_is_served_while_news_may_be_missing(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownCallers(bus)
    keep(known, b"one")
    for behind, found in ((0.99, ADA), (1.0, None), (float("inf"), None), (0.0, ADA)):
        monkeypatch.setattr(bus, "behind", lambda behind=behind: behind)
        assert known.find(b"one", 1) is found


def test_the_least_recently_used_goes_first(bus: Bus) -> None:
    known = KnownCallers(bus, most=3)
    for digest in (b"1", b"2", b"3"):
        keep(known, digest)
    assert known.find(b"1", 1)
    keep(known, b"2")
    keep(known, b"4")
    assert [known.find(digest, 1) is ADA for digest in (b"1", b"2", b"3", b"4")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert len(known._kept) == 3


# As guards ask


async def test_a_credential_that_was_seen_costs_no_statement(
    here: World, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.organization("acme")
    await here.user("ada", {"acme": Role.ADMIN})
    cookie, token = await here.cookie("ada"), await here.token("acme", Role.MEMBER)
    for secret in (cookie, token):
        first, asked = await asks.of(here, secret)
        assert asked == 1
        assert await asks.until_known(here, secret) == first
    statements: list[str] = []

    def borrow(*_: Any) -> Any:
        statements.append("one")
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(here.db, "connection", borrow)
    monkeypatch.setattr(here.bus, "behind", lambda: 0.0)  # however busy the machine is
    for secret in (cookie, token):
        assert (await asks.of(here, secret))[1] == 0
    async with here.program(token) as client:
        answer = await client.get("/api/me")
        assert (answer.status_code, answer.json()["organizations"]) == (
            200, [{"id": "acme", "role": "member"}],
        )  # fmt: skip
    assert statements == []


async def test_strangers_are_asked_for_each_time_and_take_nobodys_place(
    here: World, asks: Asks
) -> None:
    await here.organization("acme")
    token = await here.token("acme", Role.MEMBER)
    here.credentials.known._most = 1
    await asks.until_known(here, token)
    kept = dict(here.credentials.known._kept)
    for number in range(20):
        assert await asks.of(here, f"slt_{number}") == (None, 1)
        assert await asks.of(here, f"slt_{number}") == (None, 1)
        assert await asks.of(here, f"cookie-{number}") == (None, 1)
    assert here.credentials.known._kept == kept


async def test_a_token_ends_by_the_clock_to_the_millisecond(here: World, asks: Asks) -> None:
    await here.organization("acme")
    end = here.clock.now_ms() + 30_000
    grant = Grant(Role.VIEWER)
    _, secret = await here.tokens.make("acme", grant, name="t", maker=None, expires_at=end)
    await asks.until_known(here, secret)
    here.clock.ms = end - 1
    await asks.until_known(here, secret)
    here.clock.ms = end
    assert await asks.of(here, secret) == (None, 1)


async def test_a_session_that_is_used_is_seen_every_hour(
    here: World, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as without anything kept, and it lives on by that."""
    touch, touched = sign_in_repo.touch_session, list[int]()

    async def noting(db: Any, digest: bytes, now: int, expires_at: int) -> None:
        touched.append(now)
        await touch(db, digest, now, expires_at)

    monkeypatch.setattr(sign_in_repo, "touch_session", noting)
    await here.organization("acme")
    await here.user("ada", {"acme": Role.ADMIN})
    cookie, start = await here.cookie("ada"), here.clock.now_ms()
    for step in range(3 * 60 * 4 + 1):  # every quarter of a minute, for three hours
        here.clock.ms = start + step * 15_000
        assert await here.credentials.of_session(cookie)
    assert touched == [start + hours * HOUR_MS for hours in (1, 2, 3)]
    here.clock.ms = start + 3 * HOUR_MS + 30 * DAY_MS - 1
    assert await here.credentials.of_session(cookie)
    here.clock.advance(days=30)
    assert await here.credentials.of_session(cookie) is None


@pytest.mark.parametrize("end", ["idle for 30 days", "90 days old"])
async def test_a_session_ends_by_the_clock_to_the_millisecond(
    here: World, asks: Asks, end: str
) -> None:
    await here.organization("acme")
    await here.user("ada", {"acme": Role.ADMIN})
    cookie, opened = await here.cookie("ada"), here.clock.now_ms()
    if end == "idle for 30 days":
        last = opened + 30 * DAY_MS
        await here.db.execute("UPDATE sessions SET seen_at = $1", last - HOUR_MS + 1)
    else:
        last = opened + 90 * DAY_MS
        await here.db.execute(
            "UPDATE sessions SET seen_at = $1, expires_at = $2", last - HOUR_MS + 1, last + DAY_MS
        )
    here.clock.ms = last - 10_000
    await asks.until_known(here, cookie)
    here.clock.ms = last - 1
    await asks.until_known(here, cookie)
    here.clock.ms = last
    assert await asks.of(here, cookie) == (None, 1)


async def test_whoever_asks_at_once_is_answered_and_one_of_them_is_kept(
    here: World, asks: Asks
) -> None:
    await here.organization("acme")
    token = await here.token("acme", Role.MEMBER)
    found = await asyncio.gather(*(here.credentials.of_token(token) for _ in range(8)))
    assert len({each.id for each in found if each}) == 1
    assert len(here.credentials.known._kept) == 1
    await asks.until_known(here, token)
