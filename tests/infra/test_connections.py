"""Connections with an end to every wait: whoever stands still, and whoever is met with silence, is in
nobody's way for long."""

import asyncio
import json
import socket

import asyncpg
import pytest

from faults.frozen import IDLE_SECONDS, frozen, journey
from faults.relay import relay
from holding import until_waiting
from safelight.errors import Unavailable
from safelight.infra.bus import Bus
from safelight.infra.connecting import LIMITS, Connection, Limits, connect
from safelight.infra.db import AWAY, LOST, SHORT, Database
from safelight.infra.turns import whose
from safelight.testing.waiting import until

QUICK = Limits(connect=1, acquire=2, command=1, lock=0.5, idle=1)
SETTINGS = ("idle_in_transaction_session_timeout", "lock_timeout", "standard_conforming_strings")
STATES = "SELECT state FROM pg_stat_activity WHERE pid = $1"


async def shown(connection: Connection) -> list[str]:
    return [await connection.fetchval(f"SHOW {name}") for name in SETTINGS]


async def test_the_real_numbers(database: Database) -> None:
    """A frozen process is in the way for 15 s at most: it is ended, and whoever waits tries again."""
    async with database.connection() as connection:
        assert await shown(connection) == ["10s", "12s", "on"]
    alone = await connect(database.url)
    assert await shown(alone) == ["10s", "12s", "on"]
    await alone.close()
    assert LIMITS.idle < LIMITS.lock, "whoever waits outlasts whoever stands still"
    assert LIMITS.lock < LIMITS.command <= 15, "the server says what was waited for"
    assert LIMITS.command + LIMITS.connect <= 30, "itself again"


async def test_both_sides_of_a_line_are_watched(database_url: str) -> None:
    async with relay(database_url) as (_, through):
        connection = await connect(through)
        line = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]  # not typed
        asked = {
            name: line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        }
        assert list(asked.values()) == [10, 5, 3, 15_000]
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        connection.terminate()
    settings = LIMITS.of_sessions()
    assert [settings[f"tcp_keepalives_{name}"] for name in ("idle", "interval", "count")] == [
        "10", "5", "3",
    ]  # fmt: skip
    assert settings["tcp_user_timeout"] == "15000"


async def test_statements_of_one_organization_keep_no_other_waiting(database: Database) -> None:
    """As when a hundred uploads wait for the names' lock of their organization. What counts is who
    gets a connection: which of two servers' processes goes first is the machine's business."""
    db = await Database.open(database.url, pool_size=2)
    blocker = await connect(database.url)
    await blocker.execute("SELECT pg_advisory_lock(99, 1)")
    begun: list[str] = []

    async def ask(organization: str) -> None:
        whose.set(organization)
        async with db.connection() as connection:
            begun.append(organization)
            await connection.execute("SELECT pg_advisory_xact_lock(99, 1)")

    whale = [asyncio.create_task(ask("whale")) for _ in range(100)]
    try:
        await until_waiting(database, 2)
        shrimp = asyncio.create_task(ask("shrimp"))
        await asyncio.sleep(0)
        await blocker.execute("SELECT pg_advisory_unlock(99, 1)")
        await asyncio.gather(*whale, shrimp)
    finally:
        await blocker.close()
        await db.close()
    assert begun.index("shrimp") == 2, "right behind those who had both"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_process_frozen_after_any_statement(database: Database, number: int) -> None:
    with frozen(database.url, number) as state:
        assert state == ("frozen" if number < 4 else "done")
        async with asyncio.timeout(LIMITS.lock):  # of which the frozen one has IDLE_SECONDS
            await journey(database)
    assert LIMITS.lock / 2 > IDLE_SECONDS
    told = await database.fetchval("SELECT count(*) FROM activity WHERE type = 'counted'")
    assert told == (1 if number < 3 else 2)


async def test_one_silent_statement_and_everything_is_anew(database_url: str) -> None:
    """Of a pool whose connections all went silent at once, one has to find that out."""
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=3, limits=QUICK)
        before = set(await asyncio.gather(*(_backend(db) for _ in range(3))))
        line.silence()
        with pytest.raises(AWAY):
            await db.check()
        line.forward()
        after = set(await asyncio.gather(*(_backend(db) for _ in range(3))))
        assert not before & after
        db.terminate()


async def _backend(db: Database) -> int:
    async with db.connection() as connection:
        await connection.execute("SELECT pg_sleep(0.05)")
        return connection.get_server_pid()


@pytest.mark.parametrize("transaction", [True, False])
async def test_giving_back_neither_raises_nor_waits(database_url: str, transaction: bool) -> None:
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=1, limits=QUICK)
        started = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            async with db.connection() as connection:
                if transaction:
                    await connection.execute("BEGIN")
                line.silence()
                await connection.execute("SELECT 1")
        waited = asyncio.get_running_loop().time() - started
        assert waited < 5 * QUICK.command, "once, for the statement"
        line.forward()
        await db.check()
        db.terminate()


async def test_an_error_that_somebody_else_took_care_of(database_url: str) -> None:
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=1, limits=QUICK)
        async with db.connection() as connection:
            line.silence()
            with pytest.raises(TimeoutError):
                await connection.execute("SELECT 1")
        line.forward()
        await db.check()
        db.terminate()


async def test_closing_does_not_wait_for_the_silent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safelight.infra.db._CLOSE_SECONDS", 0.2)
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=2, limits=QUICK)
        line.silence()
        async with asyncio.timeout(10):
            await db.close()


async def test_what_was_left_open_is_rolled_back_and_the_connection_kept(
    database: Database,
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            backend = connection.get_server_pid()
            await connection.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
            raise ZeroDivisionError
    assert await database.fetchval("SELECT count(*) FROM kv") == 0
    assert await database.fetchval("SELECT pg_backend_pid()") == backend


async def test_who_stands_still_in_a_transaction_is_ended(database_url: str) -> None:
    db = await Database.open(database_url, pool_size=2, limits=QUICK)
    with pytest.raises(LOST):
        async with db.transaction() as connection:
            backend = connection.get_server_pid()
            await connection.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")

            async def is_gone() -> bool:
                return await db.fetchval(STATES, backend) is None

            await until(is_gone)
            await connection.execute("SELECT 1")
    db.terminate()


async def test_waiting_for_a_lock_is_away(database_url: str) -> None:
    db = await Database.open(database_url, pool_size=2, limits=QUICK)
    await db.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
    async with db.transaction() as connection:
        await connection.execute("UPDATE kv SET value = '2'")
        with pytest.raises(AWAY) as waited:
            await db.execute("UPDATE kv SET value = '3'")
    assert isinstance(waited.value, asyncpg.LockNotAvailableError)
    db.terminate()


@pytest.mark.parametrize(
    "state",
    [
        "53000", "53100", "53200", "53300", "57014", "57P01", "57P02", "57P03", "58000", "58030",
        "58P01", "55P03", "40001", "40P01", "25P03", "08006",
    ],
)  # fmt: skip
async def test_errors_of_the_surroundings(database: Database, state: str) -> None:
    with pytest.raises(AWAY) as met:
        await database.execute(f"DO $$ BEGIN RAISE 'as if' USING ERRCODE = '{state}'; END $$")
    assert isinstance(met.value, LOST + SHORT)
    assert not isinstance(met.value, Unavailable)
    await database.check()


@pytest.mark.parametrize("state", ["23505", "22012", "42P01", "SL001", "P0001"])
async def test_errors_of_our_own(database: Database, state: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as met:
        await database.execute(f"DO $$ BEGIN RAISE 'ours' USING ERRCODE = '{state}'; END $$")
    assert not isinstance(met.value, AWAY)


async def test_news_comes_again_after_a_silence(database_url: str, database: Database) -> None:
    """The listener pings, is met with silence, and listens anew."""
    async with relay(database_url) as (line, through):
        db = await Database.open(through, pool_size=2, limits=QUICK)
        ours = Bus(db, "ours")
        await ours.start()
        resynced = asyncio.Event()
        heard: list[str] = []
        ours.subscribe("topic", heard.append, resync=resynced.set)
        line.silence()
        line.forward()
        await asyncio.wait_for(resynced.wait(), 20)
        news = json.dumps(["theirs", [["topic", "detail"]]])
        await database.execute("SELECT pg_notify('safelight', $1)", news)
        await until(lambda: heard == ["detail"])
        await ours.stop()
        db.terminate()
