"""Numbered SQL files, applied in order, one transaction each, under one advisory lock.

A file that was applied never changes (its checksum is kept), and a database that knows a migration
this version does not is refused: an older Safelight must not write to a newer one's tables.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

import asyncpg
import structlog

from safelight.errors import ConfigurationError, Unavailable
from safelight.infra.db import UNREACHABLE
from safelight.infra.failpoints import reach

_LOCK = 0x5AFE_0001
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load() -> list[Migration]:
    found = [
        Migration(int(match[1]), match[2], entry.read_text())
        for entry in resources.files("safelight.migrations").iterdir()
        if (match := _FILE.fullmatch(entry.name))
    ]
    found.sort(key=lambda migration: migration.number)
    if [m.number for m in found] != list(range(1, len(found) + 1)):
        raise ConfigurationError("The migrations are not numbered 0001, 0002, … without gaps.")
    return found


async def migrate(url: str, migrations: list[Migration] | None = None) -> int:
    """Brings the database up to date; returns how many migrations it applied."""
    wanted = load() if migrations is None else migrations
    connection = await _connect(url)
    try:
        # A session lock: released by the server even if we die half-way.
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await connection.execute(_LEDGER)
        return await _apply(connection, wanted)
    finally:
        await connection.close()


async def _connect(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """The first to knock, so the one that says in words why nobody opens."""
    try:
        return await asyncpg.connect(url, timeout=10)
    except UNREACHABLE as error:
        raise Unavailable(f"The database cannot be reached: {error}") from error
    except (asyncpg.PostgresError, ValueError) as error:
        raise ConfigurationError(
            f"The database refused the connection: {error}. Check SAFELIGHT_DATABASE_URL."
        ) from error


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", wanted: list[Migration]) -> int:
    rows = await connection.fetch("SELECT number, name, checksum FROM schema_migrations")
    applied = {row["number"]: row for row in rows}
    _refuse_newer(set(applied), wanted)
    fresh = 0
    for migration in wanted:
        if row := applied.get(migration.number):
            _refuse_changed(migration, row["checksum"])
            continue
        async with connection.transaction():
            await reach("migrate.apply")
            await connection.execute(migration.sql)
            await reach("migrate.record")
            await connection.execute(
                "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
            )
        structlog.get_logger().info("migrated", number=migration.number, name=migration.name)
        fresh += 1
    return fresh


def _refuse_newer(applied: set[int], wanted: list[Migration]) -> None:
    unknown = applied - {migration.number for migration in wanted}
    if unknown:
        raise ConfigurationError(
            f"This database was written by a newer Safelight (migration {max(unknown)}; this "
            f"version knows {len(wanted)}). Start that version, or restore an older backup."
        )


def _refuse_changed(migration: Migration, checksum: str) -> None:
    if checksum != migration.checksum:
        raise ConfigurationError(
            f"Migration {migration.number} ({migration.name}) is not the one this database was "
            "made with. Install the released version of Safelight again."
        )
