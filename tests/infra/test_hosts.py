"""Of several hosts the one that takes writes is found, whatever the others do."""

from urllib.parse import urlsplit

import asyncpg
import pytest

from faults.relay import relay
from safelight.infra import hosts
from safelight.infra.connecting import Limits, connect
from safelight.infra.db import Database

SHORT = Limits(connect=0.6)


def together(*urls: str) -> str:
    """One address of several, of the same database."""
    where = ",".join(urlsplit(url).netloc.rpartition("@")[2] for url in urls)
    parts = urlsplit(urls[0])
    who = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{who}@{where}").geturl()


def test_an_address_is_taken_apart() -> None:
    several = "postgresql://u:p%2C@one:5432,two,[::1]:5433/db?target_session_attrs=read-write"
    assert hosts.addresses(several) == [
        f"postgresql://u:p%2C@{host}/db?target_session_attrs=read-write"
        for host in ("one:5432", "two", "[::1]:5433")
    ]
    for alone in ("postgresql://one/db", "postgresql://u:p@/db?host=%2Frun", "postgresql:///db"):
        assert hosts.addresses(alone) == [alone]


async def test_one_that_is_silent_is_not_waited_for_for_long(database: Database) -> None:
    """As a machine without power is, or one behind a network that is gone."""
    async with relay(database.url) as (silent, first), relay(database.url) as (_, second):
        silent.silence()
        url = together(first, second)
        connection = await connect(url, SHORT)
        assert await connection.fetchval("SELECT true")
        await connection.close()
    assert hosts._right[url].startswith(second.partition("?")[0])


async def test_what_a_server_says_is_more_than_that_another_is_away(database: Database) -> None:
    async with relay(database.url) as (_, there):
        parts = urlsplit(there)
        wrong = parts._replace(netloc=parts.netloc.replace("safelight:", "safelight:not")).geturl()
        nobody = wrong.replace(str(parts.port), "1")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await connect(together(wrong, nobody), SHORT)
        with pytest.raises(OSError):
            await connect(together(nobody, nobody), SHORT)
