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

All of it happens under one advisory lock. Nobody waits for it, or for a lock on a table, in the
server's queues for long: behind whoever waits for a table stands everybody else who needs it, and
a statement that waits keeps an index from being built beside it. What is not had soon is let go,
said, and tried again.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import resources

import asyncpg
import structlog

from safelight import __version__
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra.connecting import Connection, Limits, connect
from safelight.infra.db import AWAY, Database, read
from safelight.infra.failpoints import reach
from safelight.infra.knock import knock

_LOCK = 0x5AFE_0001
# Whoever migrates may be waited for; but a process that stands still half-way must not keep
# everybody else from starting.
_IDLE_MS = "30000"
_LIMITS = Limits(lock=2)
_TRIES, _PAUSE_SECONDS = 200, 2.0
_TURN_SECONDS, _SAY_EVERY = 0.25, 120
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

log = structlog.get_logger()


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
    connection = await knock(lambda: connect(url, _LIMITS, idle_session_timeout=_IDLE_MS))
    try:
        with _in_words():
            await _take_turn(connection)
            applied = await _apply(connection, wanted)
            await _create_functions(connection, code, version)
            if functions is None:
                await reach("migrate.embeddings")
                await connection.execute(_AT_START)
        return applied
    finally:
        await connection.close()


async def check_version(db: Database) -> None:
    """For commands, which write beside servers: refused unless the tables are this version's."""
    wanted = load()
    applied = await _applied(db)
    _refuse_newer(set(applied), wanted)
    for migration in wanted:
        if migration.number not in applied:
            raise ConfigurationError(
                f"This database was last started by an older Safelight (migration {len(applied)} "
                f"of {len(wanted)}). Start `safelight serve` of this version, which brings it up "
                "to date, then try again."
            )
        _refuse_changed(migration, applied[migration.number])


async def _take_turn(connection: Connection) -> None:
    """A session lock: released by the server even if we die half-way."""
    looks = 0
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        if looks % _SAY_EVERY == 1:
            log.info("another process brings the database up to date; waiting for it")
        looks += 1
        await asyncio.sleep(_TURN_SECONDS)


async def _patiently(what: str, step: Callable[[], Awaitable[None]]) -> None:
    """A transaction, which lets go of what it has when it meets a table that is in use."""
    for tries_left in reversed(range(_TRIES)):
        try:
            await step()
            break
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if not tries_left:
                raise Unavailable(
                    f"{what} needs a table that somebody else does not let go of ({error}). Find "
                    "the transaction in pg_stat_activity, end it, and start again."
                ) from error
            log.warning("a table is in use; trying again", step=what, error=str(error))
            await asyncio.sleep(_PAUSE_SECONDS)


@read
async def _applied(db: Database | Connection) -> dict[int, str]:
    """The checksums of what was applied; empty where Safelight has never been."""
    if await db.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return {}
    rows = await db.fetch("SELECT number, name, checksum FROM schema_migrations")
    return {row["number"]: row["checksum"] for row in rows}


async def _apply(connection: Connection, wanted: Sequence[Migration]) -> int:
    applied = await _applied(connection)
    _refuse_newer(set(applied), wanted)
    if not applied:
        _refuse_encoding(await connection.fetchval("SHOW server_encoding"))
    fresh = 0
    for migration in wanted:
        if migration.number in applied:
            _refuse_changed(migration, applied[migration.number])
            continue
        await _patiently(
            f"Migration {migration.number}", partial(_apply_one, connection, migration)
        )
        log.info("migrated", number=migration.number, name=migration.name)
        fresh += 1
    return fresh


async def _apply_one(connection: Connection, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(_LEDGER)
        await reach("migrate.apply")
        await connection.execute(migration.sql)
        await reach("migrate.record")
        await connection.execute(
            "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)",
            migration.number,
            migration.name,
            migration.checksum,
        )


async def _create_functions(connection: Connection, code: str, version: str) -> None:
    row = await connection.fetchrow("SELECT checksum, version FROM schema_functions")
    ours = (_digest(code), _number(version))
    if row and (row["checksum"] == ours[0] or _number(row["version"]) > ours[1]):
        return
    await _patiently("The database's functions", partial(_create, connection, code, version))


async def _create(connection: Connection, code: str, version: str) -> None:
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
            _digest(code),
            version,
        )


@contextmanager
def _in_words() -> Iterator[None]:
    """What a database says that is not for us alone, or not ours to change."""
    try:
        yield
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        raise ConfigurationError(
            f"The database's user may not do what Safelight needs: {error}. Let it own the "
            "database and its tables (ALTER DATABASE … OWNER TO …), or grant it CREATE and USAGE "
            "on the schema."
        ) from error
    except (
        asyncpg.UndefinedColumnError,
        asyncpg.DuplicateTableError,
        asyncpg.DuplicateObjectError,
    ) as error:
        raise ConfigurationError(
            f"The database holds something of another program: {error}. Nothing was changed. Give "
            "Safelight a database of its own and set SAFELIGHT_DATABASE_URL to it."
        ) from error
    except AWAY as error:
        if isinstance(error, Unavailable):
            raise
        raise Unavailable(
            f"The database went away while it was brought up to date: {error!r}. What was not "
            "finished was undone; start again."
        ) from error


def _refuse_encoding(encoding: str) -> None:
    if encoding != "UTF8":
        raise ConfigurationError(
            f"The database's encoding is {encoding}, which cannot hold every name. Make one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and set SAFELIGHT_DATABASE_URL "
            "to it."
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
