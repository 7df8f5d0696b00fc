"""Migrations: once, in order, all or nothing, never backwards."""

import asyncio

import asyncpg
import pytest

from conftest import with_database
from points import points_of
from safelight.errors import ConfigurationError
from safelight.infra import failpoints
from safelight.infra.migrate import Migration, load, migrate


async def fresh(url: str, name: str) -> str:
    connection = await asyncpg.connect(with_database(url, "postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    await connection.close()
    return with_database(url, name)


async def test_once_however_many_start(postgres_url: str) -> None:
    url = await fresh(postgres_url, "migrate_many")
    applied = await asyncio.gather(*(migrate(url) for _ in range(5)))
    assert sorted(applied) == [0, 0, 0, 0, len(load())]


async def test_a_newer_database_is_refused(database_url: str) -> None:
    with pytest.raises(ConfigurationError, match="newer Safelight"):
        await migrate(database_url, load()[:-1])


async def test_a_changed_migration_is_refused(database_url: str) -> None:
    first, *rest = load()
    changed = Migration(first.number, first.name, first.sql + "-- edited")
    with pytest.raises(ConfigurationError, match="is not the one"):
        await migrate(database_url, [changed, *rest])


@pytest.mark.parametrize("point", ["migrate.apply", "migrate.record"])
async def test_a_failure_leaves_a_whole_number_of_migrations(postgres_url: str, point: str) -> None:
    url = await fresh(postgres_url, f"migrate_{point.split('.')[1]}")
    first, second = (
        Migration(1, "one", "CREATE TABLE a ()"),
        Migration(2, "two", "CREATE TABLE b ()"),
    )
    failpoints.arm(point, "raise@2")
    with pytest.raises(failpoints.FailpointError):
        await migrate(url, [first, second], "")
    failpoints.disarm()
    assert await migrate(url, [first, second], "") == 1


@pytest.mark.parametrize("point", points_of("migrate.functions"))
async def test_a_failure_leaves_the_functions_as_they_were(postgres_url: str, point: str) -> None:
    def one(answer: int) -> str:
        head = "CREATE OR REPLACE FUNCTION one() RETURNS integer LANGUAGE sql AS"
        return f"{head} $$ SELECT {answer} $$;"

    url = await fresh(postgres_url, point.replace(".", "_"))
    await migrate(url, [], one(1))
    failpoints.arm(point, "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await migrate(url, [], one(2))
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetchval("SELECT one()") == 1
        await migrate(url, [], one(2))
        assert await connection.fetchval("SELECT one()") == 2
    finally:
        await connection.close()


async def test_bad_addresses_in_plain_words(postgres_url: str) -> None:
    from safelight.errors import Unavailable

    with pytest.raises(ConfigurationError, match="SAFELIGHT_DATABASE_URL"):
        await migrate(with_database(postgres_url, "no_such_database"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await migrate("postgresql://x@127.0.0.1:1/x")
