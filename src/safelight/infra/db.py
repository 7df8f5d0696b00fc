"""The connection pool, and the one way to run statements on it.

Guarantees: a connection is handed out clean, since nobody may leave SET, LISTEN or a session-level
advisory lock on a pooled connection (asyncpg's reset query, off here, costs more than most of our
statements). A server that cannot be reached is `Unavailable`; one lost in mid-statement is one of
LOST, and then the outcome of a COMMIT is unknown.

Every function of a repo is declared a `read` or a `write`. A write has a failpoint right before it,
named after the feature and the function (`submissions.move`), at which tests make the world end.
"""

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import asyncpg

from safelight.errors import Unavailable
from safelight.infra import failpoints

if TYPE_CHECKING:  # the driver's classes cannot be subscripted at run time
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.Connection

# Text the database cannot hold: NUL characters, mostly.
UNSTORABLE_TEXT: tuple[type[Exception], ...] = (
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.UntranslatableCharacterError,
)

# A statement met a server that is gone, going or not there yet.
LOST: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver's words for a server killed in mid-answer
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
)
STATEMENT_LOST: tuple[type[Exception], ...] = (*LOST, TimeoutError)
# The same while connecting, where every operating-system error means it too.
UNREACHABLE: tuple[type[Exception], ...] = (*LOST, OSError, TimeoutError)
# All of it, for code that waits and tries again.
AWAY: tuple[type[Exception], ...] = (Unavailable, *UNREACHABLE)

_CONNECT_SECONDS = 10
_ACQUIRE_SECONDS = 15
_COMMAND_SECONDS = 60


P = ParamSpec("P")
R = TypeVar("R")
Statement = Callable[P, Coroutine[Any, Any, R]]


def read(statement: Statement[P, R]) -> Statement[P, R]:
    """Changes nothing; may lock."""
    return statement


def write(statement: Statement[P, R]) -> Statement[P, R]:
    point = failpoints.declare(statement.__module__, statement.__name__)

    @wraps(statement)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        await failpoints.reach(point)
        return await statement(*args, **kwargs)

    return guarded


class Database:
    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", url: str) -> None:
        self._pool = pool
        self.url = url

    @classmethod
    async def open(cls, url: str, *, pool_size: int) -> "Database":
        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=pool_size,
                reset=_leave_as_is,
                init=prepare,
                timeout=_CONNECT_SECONDS,
                command_timeout=_COMMAND_SECONDS,
            )
        except UNREACHABLE as error:
            raise Unavailable(f"The database cannot be reached: {error}") from error
        return cls(pool, url)

    async def close(self) -> None:
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        try:
            connection = await self._pool.acquire(timeout=_ACQUIRE_SECONDS)
        except UNREACHABLE as error:
            raise Unavailable from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def check(self) -> None:
        """Raises one of AWAY when it does not answer."""
        await self.fetchval("SELECT true")

    async def fetch(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(sql, *values)

    async def fetchrow(self, sql: str, *values: Any) -> asyncpg.Record | None:
        async with self.connection() as connection:
            return await connection.fetchrow(sql, *values)

    async def fetchval(self, sql: str, *values: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(sql, *values)

    async def execute(self, sql: str, *values: Any) -> str:
        async with self.connection() as connection:
            return await connection.execute(sql, *values)


async def prepare(connection: Any) -> None:
    """Makes jsonb columns Python values; also for connections outside the pool."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )


async def _leave_as_is(_: Any) -> None:
    return None
