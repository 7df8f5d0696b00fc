"""Brings a database to this version: tables by numbered files, functions as code.

`migrations/NNNN_name.sql` hold tables and indexes. They are applied in order, one transaction each;
a file that was applied never changes (its checksum is kept), and a database that knows a migration
this version does not is refused: an older Safelight must not write to a newer one's tables.

`sql/*.sql` hold functions, as they are now. They are re-created whenever their text differs from
what the database has, all in one transaction. Two versions of the server run side by side during a
rolling upgrade, so
- a released function keeps its signature for ever: a changed one gets a new name (`x` → `x_2`);
- nothing is dropped here: a function that went out of use goes one release later, by a migration;
- a server that is older than the functions it finds leaves them as they are.

What the server offers beyond PostgreSQL itself (vectors) is looked for at every start, and so are
the tables that will be written to next (stretches.py).

All of it happens under one advisory lock.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg
import structlog

from safelight import __version__
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra.db import UNREACHABLE, Limits, connect
from safelight.infra.failpoints import reach

_LOCK = 0x5AFE_0001
# Whoever migrates may be waited for, and a table takes as long as it takes; but a process that
# stands still half-way must not keep everybody else from starting.
_LIMITS = Limits(lock=0)
_IDLE_MS = "30000"
_AT_START = "SELECT embeddings_at_start(), activity_at_start(), object_events_at_start()"
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS schema_functions (
    checksum   text NOT NULL,
    version    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return _digest(self.sql)


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


def load_functions() -> dict[str, str]:
    """Every file of functions by its owner."""
    entries = resources.files("safelight.sql").iterdir()
    found = {e.name.removesuffix(".sql"): e.read_text() for e in entries if e.name.endswith(".sql")}
    return dict(sorted(found.items()))


async def migrate(
    url: str,
    migrations: Sequence[Migration] | None = None,
    functions: str | None = None,
    *,
    version: str = __version__,
) -> int:
    """Returns how many migrations it applied."""
    wanted = load() if migrations is None else migrations
    code = "\n".join(load_functions().values()) if functions is None else functions
    connection = await _connect(url)
    try:
        # A session lock: released by the server even if we die half-way.
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await connection.execute(_LEDGER)
        applied = await _apply(connection, wanted)
        await _create_functions(connection, code, version)
        if functions is None:
            await reach("migrate.embeddings")
            await connection.execute(_AT_START)
        return applied
    finally:
        await connection.close()


async def _connect(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """The first to knock, so the one that says in words why nobody opens."""
    try:
        return await connect(url, _LIMITS, idle_session_timeout=_IDLE_MS)
    except UNREACHABLE as error:
        raise Unavailable(f"The database cannot be reached: {error}") from error
    except (asyncpg.PostgresError, ValueError) as error:
        raise ConfigurationError(
            f"The database refused the connection: {error}. Check SAFELIGHT_DATABASE_URL."
        ) from error


async def _apply(
    connection: "asyncpg.Connection[asyncpg.Record]", wanted: Sequence[Migration]
) -> int:
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


async def _create_functions(
    connection: "asyncpg.Connection[asyncpg.Record]", code: str, version: str
) -> None:
    row = await connection.fetchrow("SELECT checksum, version FROM schema_functions")
    ours = (_digest(code), _number(version))
    if row and (row["checksum"] == ours[0] or _number(row["version"]) > ours[1]):
        return
    async with connection.transaction():
        # Bodies may name functions that come later in the file.
        await connection.execute("SET LOCAL check_function_bodies = off")
        await reach("migrate.functions")
        try:
            await connection.execute(code or "SELECT")
        except asyncpg.InvalidFunctionDefinitionError as error:
            raise ConfigurationError(
                f"A function in sql/ has changed its signature ({error}). Servers of the version "
                "before may be running beside this one: give the changed function a new name."
            ) from error
        await reach("migrate.functions_record")
        await connection.execute(
            "WITH old AS (DELETE FROM schema_functions) "
            "INSERT INTO schema_functions (checksum, version) VALUES ($1, $2)",
            ours[0],
            version,
        )


def _refuse_newer(applied: set[int], wanted: Sequence[Migration]) -> None:
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


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
