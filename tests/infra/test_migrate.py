"""Migrations: once, in order, all or nothing, never backwards."""

import asyncio

import asyncpg
import pytest
import structlog

from conftest import with_database
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra import failpoints
from safelight.infra.connecting import Limits
from safelight.infra.db import Database
from safelight.infra.migrate import Migration, check_version, load, migrate


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
    with pytest.raises(ConfigurationError, match="SAFELIGHT_DATABASE_URL"):
        await migrate(with_database(postgres_url, "no_such_database"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await migrate("postgresql://x@127.0.0.1:1/x")


ALTERING = Migration(len(load()) + 1, "altering", "ALTER TABLE kv ADD COLUMN more text")


async def test_a_table_in_use_is_let_go_of_and_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody reads for a long time; others, who only read too, do not wait behind the migration."""
    monkeypatch.setattr("safelight.infra.migrate._LIMITS", Limits(lock=0.05))
    monkeypatch.setattr("safelight.infra.migrate._PAUSE_SECONDS", 0.01)
    with structlog.testing.capture_logs() as logs:
        async with database.transaction() as reading:
            await reading.execute("SELECT * FROM kv")
            migrating = asyncio.create_task(migrate(database.url, [*load(), ALTERING]))
            while len(logs) < 3:
                async with asyncio.timeout(10):
                    await database.fetch("SELECT * FROM kv")
        assert await migrating == 1
    told = [log for log in logs if log["event"] == "a table is in use; trying again"]
    assert told[0]["step"] == f"Migration {ALTERING.number}"
    assert "lock timeout" in told[0]["error"]
    assert await database.fetch("SELECT more FROM kv") == []


async def test_a_table_that_is_never_let_go_of(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safelight.infra.migrate._LIMITS", Limits(lock=0.01))
    monkeypatch.setattr("safelight.infra.migrate._TRIES", 1)
    async with database.transaction() as reading:
        await reading.execute("SELECT * FROM kv")
        with pytest.raises(Unavailable, match="somebody else does not let go of"):
            await migrate(database.url, [*load(), ALTERING])


async def test_whoever_waits_for_its_turn_holds_nothing(database: Database) -> None:
    """An index that is built concurrently waits for every statement that runs, so none does."""
    async with database.connection() as other:
        await other.execute("SELECT pg_advisory_lock(1526595585)")
        with structlog.testing.capture_logs() as logs:
            waiting = asyncio.create_task(migrate(database.url))
            while not logs:
                await asyncio.sleep(0)
                assert not waiting.done()
            assert "waiting for it" in logs[0]["event"]
        async with asyncio.timeout(10):
            await database.execute("CREATE INDEX CONCURRENTLY one_more ON kv (value)")
        await other.execute("SELECT pg_advisory_unlock(1526595585)")
    assert await waiting == 0


async def foreign(url: str, name: str, statement: str, options: str = "") -> str:
    connection = await asyncpg.connect(with_database(url, "postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
    await connection.close()
    connection = await asyncpg.connect(with_database(url, name))
    await connection.execute(statement)
    await connection.close()
    return with_database(url, name)


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE schema_migrations (version text)", "CREATE TABLE users (id uuid, email text)"],
    ids=["ledger", "users"],
)
async def test_another_programs_database(
    postgres_url: str, request: pytest.FixtureRequest, statement: str
) -> None:
    name = f"foreign_{request.node.callspec.id}"
    url = await foreign(postgres_url, name, statement)
    with pytest.raises(ConfigurationError, match=r"something of another program.*of its own"):
        await migrate(url)
    connection = await asyncpg.connect(url)
    assert (
        await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 1
    )
    await connection.close()


async def test_an_encoding_that_cannot_hold_every_name(postgres_url: str) -> None:
    options = "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
    url = await foreign(postgres_url, "narrow_letters", "SELECT", options)
    with pytest.raises(ConfigurationError, match=r"LATIN1, which cannot hold every name.*UTF8"):
        await migrate(url)


@pytest.mark.parametrize("what", ["ALL", "CREATE"])
async def test_a_user_who_may_not(postgres_url: str, what: str) -> None:
    name = f"closed_{what}".lower()
    make = f"CREATE ROLE {name} LOGIN PASSWORD 'x'; REVOKE {what} ON SCHEMA public FROM PUBLIC"
    query = (await foreign(postgres_url, name, make)).partition("?")[2]
    guest = f"postgresql://{name}:x@/{name}?{query}"
    with pytest.raises(
        ConfigurationError, match=r"may not do what Safelight needs.*grant it CREATE"
    ):
        await migrate(guest)


async def test_commands_know_the_version_of_the_tables(database: Database) -> None:
    await check_version(database)
    await database.execute("DELETE FROM schema_migrations WHERE number = 7")
    with pytest.raises(ConfigurationError, match=r"an older Safelight .*Start `safelight serve`"):
        await check_version(database)
    await database.execute(
        "INSERT INTO schema_migrations (number, name, checksum) VALUES (9999, 'new', '')"
    )
    with pytest.raises(ConfigurationError, match="newer Safelight"):
        await check_version(database)
