"""Migrations: once, in order, all or nothing, never backwards."""

import asyncio

import asyncpg
import pytest

from conftest import with_database
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


ANSWER = "CREATE OR REPLACE FUNCTION answer() RETURNS integer LANGUAGE sql AS $$ SELECT {} $$;"


async def answer(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        found: int = await connection.fetchval("SELECT answer()")
        return found
    finally:
        await connection.close()


async def test_functions_follow_their_text(database_url: str) -> None:
    await migrate(database_url, functions=ANSWER.format(1), version="0.20.0")
    assert await answer(database_url) == 1
    await migrate(database_url, functions=ANSWER.format(2), version="0.20.0")
    assert await answer(database_url) == 2


async def test_an_older_server_leaves_newer_functions_alone(database_url: str) -> None:
    """During a rolling upgrade a server of the version before may still be started again."""
    await migrate(database_url, functions=ANSWER.format(2), version="0.10.0")
    await migrate(database_url, functions=ANSWER.format(1), version="0.9.1")
    assert await answer(database_url) == 2
    await migrate(database_url, functions=ANSWER.format(3), version="0.10.1")
    assert await answer(database_url) == 3


async def test_a_changed_signature_is_refused(database_url: str) -> None:
    await migrate(database_url, functions=ANSWER.format(1), version="0.20.0")
    changed = ANSWER.format("'one'").replace("integer", "text")
    with pytest.raises(ConfigurationError, match="new name"):
        await migrate(database_url, functions=changed, version="0.30.0")
    assert await answer(database_url) == 1


@pytest.mark.parametrize("point", ["migrate.functions", "migrate.functions_record"])
async def test_functions_are_all_new_or_all_old(database_url: str, point: str) -> None:
    await migrate(database_url, functions=ANSWER.format(1), version="0.20.0")
    failpoints.arm(point, "raise")
    with pytest.raises(failpoints.FailpointError):
        await migrate(database_url, functions=ANSWER.format(2), version="0.20.0")
    failpoints.disarm()
    assert await answer(database_url) == 1
    await migrate(database_url, functions=ANSWER.format(2), version="0.20.0")
    assert await answer(database_url) == 2


async def test_what_the_server_offers_is_looked_for_at_every_start(database_url: str) -> None:
    """Killed there, or without it, the next start finds it."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP EXTENSION vector CASCADE; DROP TABLE embeddings")
    failpoints.arm("migrate.embeddings", "raise")
    with pytest.raises(failpoints.FailpointError):
        await migrate(database_url)
    failpoints.disarm()
    await migrate(database_url)
    await migrate(database_url)
    assert await connection.fetchval("SELECT to_regclass('embeddings') IS NOT NULL")
    await connection.close()


async def test_bad_addresses_in_plain_words(postgres_url: str) -> None:
    from safelight.errors import Unavailable

    with pytest.raises(ConfigurationError, match="SAFELIGHT_DATABASE_URL"):
        await migrate(with_database(postgres_url, "no_such_database"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await migrate("postgresql://x@127.0.0.1:1/x")
