"""A server without a connection left is waited for; one that refuses us later is away until it does
not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import structlog

from inprocess import application
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra.connecting import Connection, connect
from safelight.infra.db import Database, be_brief
from safelight.infra.knock import knock
from safelight.settings import load
from safelight.testing.waiting import until
from safelight.wiring import open_services


class Role:
    """May do everything in the test's database, until somebody thinks otherwise."""

    def __init__(self, administrator: Connection, url: str) -> None:
        parts = urlsplit(url)
        self.name = f"role_of_{parts.path[1:]}"
        self.url = parts._replace(netloc=f"{self.name}:right@").geturl()
        self._administrator = administrator

    async def alter(self, change: str) -> None:
        await self._administrator.execute(f"ALTER ROLE {self.name} {change}")

    async def end_sessions(self) -> None:
        await self._administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", self.name
        )

    async def sessions(self) -> int:
        count: int = await self._administrator.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", self.name
        )
        return count


@pytest.fixture
async def role(database_url: str) -> AsyncIterator[Role]:
    administrator = await asyncpg.connect(database_url)
    made = Role(administrator, database_url)
    await administrator.execute(
        f"CREATE ROLE {made.name} LOGIN PASSWORD 'right';"
        f"GRANT ALL ON SCHEMA public TO {made.name};"
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {made.name};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {made.name}"
    )
    yield made
    await made.end_sessions()
    await administrator.execute(f"DROP OWNED BY {made.name}; DROP ROLE {made.name}")
    await administrator.close()


async def test_whoever_finds_no_room_waits_for_it(role: Role) -> None:
    await role.alter("CONNECTION LIMIT 1")
    db = await Database.open(role.url, pool_size=3)
    numbers = await asyncio.gather(*(db.fetchval("SELECT $1::int", n) for n in range(6)))
    assert numbers == list(range(6)), "one after the other on the one that there is"
    await db.close()


async def test_but_not_for_ever(role: Role) -> None:
    db = await Database.open(role.url, pool_size=3)
    await role.alter("CONNECTION LIMIT 1")
    async with db.connection():
        be_brief(0)
        with pytest.raises(Unavailable):
            await db.check()
    await db.close()


async def test_a_start_waits_for_room_and_says_so(
    role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    await role.alter("CONNECTION LIMIT 1")
    first = await connect(role.url)
    monkeypatch.setattr("safelight.infra.knock._PAUSE_SECONDS", 0.01)
    with structlog.testing.capture_logs() as logs:
        waiting = asyncio.create_task(knock(lambda: connect(role.url)))
        while not logs:
            await asyncio.sleep(0)
        await first.close()
        second = await waiting
        assert "no connection left; trying again" in logs[0]["event"]
        monkeypatch.setattr("safelight.infra.knock._TRIES", 2)
        with pytest.raises(Unavailable, match="Raise its max_connections"):
            await knock(lambda: connect(role.url))
    await second.close()


async def test_a_process_stays_within_its_budget(role: Role, tmp_path: Path) -> None:
    """With as many statements at once as it likes, and a worker."""
    settings = load({"data_dir": tmp_path, "database_pool_size": 6})
    async with open_services(settings, role.url, worker=True) as registry:
        db = registry.get(Database)
        await asyncio.gather(*(db.fetchval("SELECT pg_sleep(0.01)") for _ in range(40)))
        assert 4 <= await role.sessions() <= 6


async def test_a_password_that_changes_while_it_runs(role: Role, tmp_path: Path) -> None:
    async with application(role.url, tmp_path, worker=True) as app, app.client() as client:

        async def is_ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await until(is_ready)
        await role.alter("PASSWORD 'wrong'")
        await role.end_sessions()
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["database"]) == (503, "unavailable")
        listed = await client.get("/api/organizations/default/uploads")
        assert (listed.status_code, listed.json()["code"]) == (503, "UNAVAILABLE")
        assert "cannot be reached right now" in listed.json()["error"]
        await role.alter("PASSWORD 'right'")
        await until(is_ready)
        assert (await client.get("/api/organizations/default/uploads")).status_code == 200
        with pytest.raises(ConfigurationError, match="Check SAFELIGHT_DATABASE_URL"):
            await knock(lambda: connect(role.url.replace("right", "wrong")))
