"""News here and elsewhere: at once, gathered, and again after the connection was lost."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from faults.relay import relay
from safelight.infra.bus import Bus
from safelight.infra.db import Database, be_brief, seconds_left
from safelight.infra.turns import whose
from safelight.testing.waiting import until


@asynccontextmanager
async def listening(db: Database, origin: str) -> AsyncIterator[tuple[Bus, list[str]]]:
    bus, heard = Bus(db, origin), list[str]()
    bus.subscribe("t", heard.append)
    await bus.start()
    yield bus, heard
    await bus.stop()


async def listeners(db: Database) -> list[int]:
    rows = await db.fetch(
        """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')
        """
    )
    return [row["pid"] for row in rows]


async def test_subscribers_here_hear_before_announce_returns(database: Database) -> None:
    bus, heard = Bus(database, "one"), list[str]()
    unsubscribe = bus.subscribe("t", heard.append)
    bus.announce("t", "x")
    bus.announce("other", "y")
    unsubscribe()
    unsubscribe()
    bus.announce("t", "z")
    assert heard == ["x"]
    await bus.stop()


async def test_another_process_hears_and_the_sender_hears_once(database: Database) -> None:
    async with listening(database, "one") as (one, here), listening(database, "two") as (_, there):
        one.announce("t", "org-1")
        await until(lambda: there == ["org-1"])
        assert here == ["org-1"]


async def test_a_process_that_does_not_listen_is_heard(database: Database) -> None:
    async with listening(database, "one") as (_, heard):
        command = Bus(database, "command")
        command.announce("t", "x")
        await command.stop()
        await until(lambda: heard == ["x"])


async def test_a_burst_is_one_statement_and_repeats_are_dropped(database: Database) -> None:
    async with listening(database, "one") as (one, _), listening(database, "two") as (_, there):
        sent = 0
        execute = database.execute

        async def counting(sql: str, *values: object, **options: Any) -> str:
            nonlocal sent
            sent += "pg_notify" in sql
            return await execute(sql, *values, **options)

        database.execute = counting  # type: ignore[method-assign]
        for _ in range(100):
            for detail in ("a", "b", "c"):
                one.announce("t", detail)
        await until(lambda: sorted(there) == ["a", "b", "c"])
        assert sent <= 10, "300 announcements"


async def test_news_is_sent_for_everybody_and_not_in_the_first_ones_line(
    database: Database,
) -> None:
    """Nor within the time that whoever announced it first had left."""
    sent: list[tuple[str, float]] = []

    async def noting(*_: object, **__: Any) -> str:
        sent.append((whose.get(), seconds_left(15)))
        return ""

    async def request(organization: str) -> None:
        whose.set(organization)
        be_brief(2)
        bus.announce("t", organization)
        assert (whose.get(), seconds_left(15) < 15) == (organization, True)

    bus = Bus(database, "one")
    database.execute = noting  # type: ignore[method-assign]
    await asyncio.gather(request("whale"), request("shrimp"))
    await bus.stop()
    assert sent == [("", 15)]


async def test_more_than_fits_into_one_message_still_arrives(database: Database) -> None:
    details = [f"organization-{number:04}-{'x' * 64}" for number in range(300)]
    async with listening(database, "one") as (one, _), listening(database, "two") as (_, there):
        for detail in details:
            one.announce("t", detail)
        await until(lambda: sorted(there) == details)


async def test_a_killed_listener_comes_back_and_asks_for_a_resync(database: Database) -> None:
    resyncs: list[int] = []
    async with listening(database, "one") as (one, heard):
        one.subscribe("t", lambda _: None, resync=lambda: resyncs.append(1))
        one.subscribe("u", lambda _: None)
        [pid] = await until(lambda: listeners(database))
        await database.execute("SELECT pg_terminate_backend($1)", pid)
        await until(lambda: resyncs, 2 + 1)
        command = Bus(database, "command")
        command.announce("t", "after")
        await command.stop()
        await until(lambda: "after" in heard)
    assert resyncs == [1]


async def test_whoever_subscribed_before_it_listens_is_asked_to_resync(database: Database) -> None:
    """The database was slow, and news may have been missed."""
    bus, resyncs = Bus(database, "one"), list[int]()
    bus.subscribe("t", lambda _: None, resync=lambda: resyncs.append(1))
    await bus.start()
    assert resyncs == [1]
    await bus.stop()


SAID = "SELECT pg_notify('safelight', $1)"


def said_by_a_trigger(detail: str) -> str:
    return json.dumps(["", [["t", detail]]])


async def test_what_the_database_says_is_heard_and_is_no_company(database: Database) -> None:
    async with listening(database, "one") as (one, heard):
        await until(lambda: one._greeted and not one._sending)
        one._company_until = 0.0
        await database.execute(SAID, said_by_a_trigger("x"))
        await until(lambda: heard == ["x"])
        assert one._company_until == 0.0


async def test_it_says_how_far_it_has_heard(database: Database) -> None:
    """All that was committed before then: whatever is asked for on the connection that listens is
    answered after it."""
    unstarted = Bus(database, "none")
    assert unstarted.behind() == math.inf
    async with listening(database, "one") as (one, heard):
        assert one.behind() < math.inf
        for number in range(5):
            await database.execute(SAID, said_by_a_trigger(str(number)))
            await until(partial(has_heard, one, time.monotonic()))
            assert len(heard) == number + 1
    assert one.behind() == math.inf


def has_heard(bus: Bus, moment: float) -> bool:
    return time.monotonic() - bus.behind() > moment


async def test_while_it_hears_nothing_it_falls_behind(database_url: str) -> None:
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=2)
        async with listening(db, "one") as (one, _):
            line.silence_at(b"SELECT 1")
            await line.fell_silent.wait()
            heard_all = one._heard_all
            await until(lambda: one.behind() > 1)
            assert one._heard_all in (heard_all, -math.inf)
            await until(lambda: one.behind() < 1)  # by another connection
            assert one._heard_all > heard_all
        db.terminate()


async def test_alone_it_sends_nothing_and_a_newcomer_is_greeted(database: Database) -> None:
    async with listening(database, "one") as (one, _):
        await until(lambda: one._greeted and not one._sending)
        one._company_until = 0.0  # as after its first seconds alone
        one.announce("t", "unheard")
        assert not one._pending
        async with listening(database, "two") as (two, there):
            await until(lambda: one._company_until > 0)
            one.announce("t", "heard")
            await until(lambda: there == ["heard"])
            assert two._company_until > one._greeted


async def test_a_subscriber_that_fails_harms_nobody(database: Database) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("bug")

    bus, heard = Bus(database, "one"), list[str]()
    bus.subscribe("t", fail)
    bus.subscribe("t", heard.append)
    with structlog.testing.capture_logs() as logs:
        bus.announce("t", "x")
    assert heard == ["x"]
    assert [line["event"] for line in logs] == ["bus.subscriber_failed"]
    await bus.stop()


async def test_noise_on_the_channel_is_ignored(database: Database) -> None:
    async with listening(database, "one") as (_, heard):
        for noise in ("", "[]", "not json", '{"a": 1}', '["two", [["t", "x"]]]'):
            await database.execute("SELECT pg_notify('safelight', $1)", noise)
        await until(lambda: heard == ["x"])


async def test_without_a_database_announcing_is_still_safe(database: Database) -> None:
    bus, heard = Bus(database, "one"), list[str]()
    bus.subscribe("t", heard.append)
    database.terminate()
    with structlog.testing.capture_logs() as logs:
        bus.announce("t", "x")
        await bus.stop()
    assert heard == ["x"]
    assert [line["event"] for line in logs] == ["bus.unsent"]


def test_announcing_without_a_loop_is_safe() -> None:
    heard: list[str] = []

    def announce(make: Callable[[], Bus]) -> None:
        bus = make()
        bus.subscribe("t", heard.append)
        bus.announce("t", "x")

    async def make_bus() -> Bus:
        return Bus(None, "one")  # type: ignore[arg-type]  # nothing is sent without a loop

    announce(lambda: asyncio.run(make_bus()))
    assert heard == ["x"]
