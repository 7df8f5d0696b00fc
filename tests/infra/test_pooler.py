"""A pooler that lends a connection for one transaction at a time: known, used as it can be, or refused
in words."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import structlog

from conftest import reachable_directory
from faults.pooler import pooler
from harness import picture
from inprocess import application
from safelight.cli.main import USAGE, main
from safelight.errors import ConfigurationError
from safelight.infra.bus import Bus
from safelight.infra.connecting import Address, Limits
from safelight.infra.db import AWAY, Database
from safelight.infra.pooler import survey
from safelight.testing.waiting import told_by, until

pytestmark = pytest.mark.process


@pytest.fixture
def directory() -> Iterator[Path]:
    with reachable_directory() as made:
        yield made


async def test_nobody_in_between(database_url: str) -> None:
    assert await survey(database_url, None) == Address.plain(database_url)
    other = f"{database_url}&application_name=direct"
    assert await survey(database_url, other) == Address(database_url, other)


async def test_a_pooler_of_sessions_is_no_matter(database_url: str, directory: Path) -> None:
    with pooler(database_url, directory, "session") as url:
        assert await survey(url, None) == Address.plain(url)
        db = await Database.open(url, pool_size=2)
        assert await db.fetchval("SHOW lock_timeout") == "12s"
        await db.close()


async def test_refused_without_a_direct_address(database_url: str, directory: Path) -> None:
    with pooler(database_url, directory) as url:
        with pytest.raises(ConfigurationError, match="Set SAFELIGHT_DATABASE_DIRECT_URL to"):
            await survey(url, None)
        with pytest.raises(ConfigurationError, match="DIRECT_URL leads to a pooler"):
            await survey(url, url)
        with pytest.raises(ConfigurationError, match="DIRECT_URL leads to a pooler"):
            await survey(database_url, url)


async def test_a_pooler_of_statements_is_refused(database_url: str, directory: Path) -> None:
    with (
        pooler(database_url, directory, "statement") as url,
        pytest.raises(ConfigurationError, match="allows no transactions"),
    ):
        await survey(url, database_url)


async def test_one_server_for_everybody(database_url: str, directory: Path) -> None:
    """Statements find what they prepared, and nothing is left behind for the next one."""
    with pooler(database_url, directory, default_pool_size="1") as url:
        address = await survey(url, database_url)
        assert address.lent
        db = await Database.open(address, pool_size=4)
        async with db.transaction() as connection:
            await connection.execute("SELECT set_config('lock_timeout', '1s', true)")
        numbers = await asyncio.gather(
            *(db.fetchval("SELECT $1::int + $2::int", n, n) for n in range(40))
        )
        assert numbers == [2 * n for n in range(40)]
        async with db.connection() as one:
            await one.executemany(
                "INSERT INTO kv (key, value) VALUES ($1, $2)", [("a", {"b": 1}), ("c", [2])]
            )
        assert await db.fetchval("SELECT value FROM kv WHERE key = 'a'") == {"b": 1}
        kept = await db.fetchval("SELECT count(*) FROM pg_prepared_statements")
        assert bool(kept) == address.prepares, "older poolers would mix them up"
        await db.close()


async def test_a_transaction_has_its_limits(database_url: str, directory: Path) -> None:
    with pooler(database_url, directory) as url:
        address = await survey(url, database_url)
        db = await Database.open(address, pool_size=2, limits=Limits(lock=0.5, idle=1))
        async with db.transaction() as connection:
            assert await connection.fetchval("SHOW lock_timeout") == "500ms"
            assert await connection.fetchval("SHOW idle_in_transaction_session_timeout") == "1s"
            await connection.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
            async with db.connection() as other:
                await db.begin(other)
                with pytest.raises(asyncpg.LockNotAvailableError):
                    await other.execute("INSERT INTO kv (key, value) VALUES ('a', '2')")
        assert await db.fetchval("SHOW lock_timeout") == "0"
        await db.close()


async def test_the_server_behind_it_goes_away(database_url: str, directory: Path) -> None:
    with pooler(database_url, directory) as url:
        db = await Database.open(await survey(url, database_url), pool_size=2)
        with pytest.raises(AWAY):
            async with db.transaction() as connection:
                await connection.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                await connection.execute("SELECT 1")

        async def empty() -> bool:
            try:
                return bool(await db.fetchval("SELECT count(*) = 0 FROM kv"))
            except AWAY:
                return False

        await until(empty)
        await db.close()


def test_a_command_says_what_to_set(
    database_url: str,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pooler(database_url, directory) as url:
        monkeypatch.setenv("SAFELIGHT_DATABASE_URL", url)
        monkeypatch.setattr(sys, "argv", ["safelight", "organizations", "list"])
        with pytest.raises(SystemExit) as end:
            main()
    structlog.reset_defaults()
    assert end.value.code == USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Set SAFELIGHT_DATABASE_DIRECT_URL to the address of PostgreSQL itself" in said


async def test_everything_through_it(
    database_url: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pooler(database_url, directory, default_pool_size="4") as url:
        monkeypatch.setenv("SAFELIGHT_DATABASE_URL", url)
        async with application(url, tmp_path, worker=True, database_direct_url=database_url) as app:
            with told_by(app.registry.get(Bus), "anything") as news:
                async with app.client() as client:
                    answers = await asyncio.gather(
                        *(
                            client.post("/api/upload", files={"file": (f"{n}.jpg", picture())})
                            for n in range(8)
                        )
                    )
                assert {answer.status_code for answer in answers} == {201}
                elsewhere = Bus(app.db, "elsewhere")
                elsewhere.announce("anything", "news")
                await until(lambda: "news" in news.details)
                await elsewhere.stop()

            async def labelled() -> bool:
                done = "SELECT count(*) FROM uploads WHERE classification_status = 'done'"
                return bool(await app.db.fetchval(done) == 8)

            await until(labelled)


async def test_the_direct_address_of_another_database(
    database_url: str,
    postgres_url: str,
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE identity SET id = 'another'")  # the tests' are copies of one
    await connection.close()
    with (
        pooler(database_url, directory) as url,
        pytest.raises(ConfigurationError, match="lead to different databases"),
    ):
        async with application(url, tmp_path, database_direct_url=postgres_url):
            pass
