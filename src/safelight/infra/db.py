"""The database, and the one way to run statements on it.

Guarantees
- A connection is handed out clean, since nobody may leave SET, LISTEN or a session-level advisory
  lock on a pooled connection (asking the server to reset it costs more than most of our
  statements). Giving it back neither raises nor waits: one in doubt is ended instead.
- Connections lead to a server that takes writes (connecting.py). Whoever finds itself on one that
  does not any more ends what it has, and the next statement goes where the writes are.
- A server that cannot be reached is `Unavailable`; one lost in mid-statement is one of LOST, and
  then the outcome of a COMMIT is unknown. Both, and a server that is short of something, are AWAY.
- A commit whose waiting for a standby was cut short has an unknown outcome too (standby.py).
- Connections are shared between organizations (turns.py): however many statements of one wait for
  a lock or for each other, another's next one waits for a single one of them.
- No wait is without an end, on either side (`Limits`): a process that stands still, or whose
  connections went silent, is in nobody's way for long. One statement that is lost or overdue ends
  the idle connections too, which may be as silent.

Every function of a repo is declared a `read` or a `write`. A write has a failpoint right before it,
named after the feature and the function (`submissions.move`), at which tests make the world end.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import asyncpg
import structlog

from safelight.errors import Unavailable
from safelight.infra import failpoints, standby
from safelight.infra.codecs import prepare
from safelight.infra.connecting import LIMITS, Address, Limits, begin, connect_to
from safelight.infra.connecting import Connection as Connection  # noqa: PLC0414 - for askers
from safelight.infra.pool import Pool, end
from safelight.infra.turns import Turns

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
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.StatementCompletionUnknownError,
    ConnectionError,
)
STATEMENT_LOST: tuple[type[Exception], ...] = (*LOST, TimeoutError)
# It answered, and could not: no room, no memory, a file that cannot be read, a lock that somebody
# else has, a statement that was cancelled or that stood in a ring. Nothing was changed.
SHORT: tuple[type[Exception], ...] = (
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresSystemError,
    asyncpg.LockNotAvailableError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.TransactionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a server that protects a full disk
)
# The same while connecting, where every operating-system error means it too.
UNREACHABLE: tuple[type[Exception], ...] = (*LOST, *SHORT, OSError, TimeoutError)
# Whoever opens the door has changed his mind: a password was changed, a database renamed. When a
# process starts this is a mistake in its settings; later it passes, like everything that is away.
REFUSED: tuple[type[Exception], ...] = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
# All of it, for code that waits and tries again.
AWAY: tuple[type[Exception], ...] = (Unavailable, *UNREACHABLE)

# The server was the one that takes writes and is not any more, and all its connections are as good.
_DEMOTED = asyncpg.ReadOnlySQLTransactionError
_RELEASE_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_ROOM_SECONDS = 0.5
_LEAST_SECONDS = 1.0
_ends: ContextVar[float | None] = ContextVar("ends", default=None)


def be_brief(seconds: float) -> None:
    """From here on, in this task: whoever asked waits no longer than this for a connection and an
    answer, and gets at least a second for each. For what only reads, since a write that is given up
    early is one in doubt. Statements with a limit of their own keep it."""
    _ends.set(time.monotonic() + seconds)


def be_patient() -> None:
    """Ends that: nobody waits any more."""
    _ends.set(None)


def seconds_left(limit: float) -> float:
    """Of a limit, for whoever is brief."""
    ends = _ends.get()
    return limit if ends is None else min(limit, max(ends - time.monotonic(), _LEAST_SECONDS))


UPKEEP_SECONDS = 300.0  # a limit for statements that go through whole tables

log = structlog.get_logger()

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
    def __init__(self, address: Address, limits: Limits, pool_size: int) -> None:
        self.address = address
        self.limits = limits
        self.pool = Pool(self._connect)
        self.turns = Turns(pool_size)
        self._begin = begin(address, limits)

    @classmethod
    async def open(
        cls, address: Address | str, *, pool_size: int, limits: Limits | None = None
    ) -> "Database":
        at = Address.plain(address) if isinstance(address, str) else address
        db = cls(at, limits or LIMITS, pool_size)
        try:
            async with db.connection():
                return db
        except Unavailable as error:
            raise Unavailable(f"The database cannot be reached: {error.__cause__!r}") from error

    @property
    def url(self) -> str:
        return self.address.url

    async def _connect(self) -> Any:
        connection = await connect_to(self.address, self.limits)
        try:
            await prepare(connection)
        except BaseException:
            end(connection)
            raise
        return connection

    async def close(self) -> None:
        """In order, if that is quick."""
        with suppress(*AWAY):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.pool.close()
        self.terminate()

    def terminate(self) -> None:
        self.pool.terminate()

    def connection(self) -> "Borrowed":
        """Whatever transaction is open at the end was not meant to be committed."""
        return Borrowed(self)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One that tells no history (activity.py has those that do)."""
        async with self.connection() as connection:
            await self.begin(connection)
            yield connection
            await commit(connection)

    async def begin(self, connection: Connection) -> None:
        await connection.execute(self._begin)

    async def check(self) -> None:
        """Raises one of AWAY when it does not answer."""
        await self.fetchval("SELECT true")

    # `timeout` is for statements that may take longer than the others.

    async def fetch(
        self, sql: str, *values: Any, timeout: float | None = None
    ) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(sql, *values, timeout=self._limit(timeout))

    async def fetchrow(self, sql: str, *values: Any) -> asyncpg.Record | None:
        async with self.connection() as connection:
            return await connection.fetchrow(sql, *values, timeout=self._limit())

    async def fetchval(self, sql: str, *values: Any, timeout: float | None = None) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(sql, *values, timeout=self._limit(timeout))

    async def execute(self, sql: str, *values: Any, timeout: float | None = None) -> str:
        async with self.connection() as connection:
            return await connection.execute(sql, *values, timeout=self._limit(timeout))

    def _limit(self, own: float | None = None) -> float:
        return seconds_left(self.limits.command) if own is None else own


class Borrowed:
    """A connection for as long as `async with` lasts. Giving it back neither waits for long nor
    raises, but to say that what went well is in doubt: one that is in doubt is ended."""

    __slots__ = ("_connection", "_db", "_mine")

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __aenter__(self) -> Connection:
        db = self._db
        if (mine := db.turns.at_hand()) is None or (here := db.pool.at_hand()) is None:
            mine, here = await self._wait(mine)
        self._mine, self._connection = mine, here
        connection: Connection = here
        return connection

    async def _wait(self, mine: str | None) -> tuple[str, Any]:
        """For a turn, unless it is `mine` already, and for a connection."""
        db = self._db
        try:
            async with asyncio.timeout(seconds_left(db.limits.acquire)):
                if mine is None:
                    mine = await db.turns.take()
                return mine, await self._one()
        except BaseException as error:
            if mine is not None:
                db.turns.give(mine)
            if isinstance(error, REFUSED):
                log.warning("the database refuses the connection", error=str(error))
            if isinstance(error, (*UNREACHABLE, *REFUSED)):
                raise Unavailable from error
            raise

    async def _one(self) -> Any:
        """Where the server has none left, one of ours may come back, or of somebody else's."""
        pool = self._db.pool
        while (here := pool.at_hand()) is None:
            try:
                return await pool.another()
            except asyncpg.TooManyConnectionsError as error:
                log.warning("the database has no connection left", error=str(error))
                await pool.until_one_returns(_ROOM_SECONDS)
        return here

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        connection, pool = self._connection, self._db.pool
        try:
            if error is not None and _in_doubt(error):
                end(connection)
                pool.end_the_idle()
            elif _is_cancelling(connection):
                end(connection)
            elif connection.is_in_transaction():
                await connection.execute("ROLLBACK", timeout=_RELEASE_SECONDS)
            elif standby.was_cut_short(connection):
                end(connection)
        except Exception:  # noqa: BLE001 - it is of no more use to anybody
            end(connection)
        except BaseException:  # cancelled in the middle of it
            end(connection)
            raise
        finally:
            pool.give_back(connection)
            self._db.turns.give(self._mine)
        if error is None:
            standby.confirm(connection)


async def commit_with(connection: Connection, closing: str) -> None:
    """The last statement of a transaction and COMMIT, in one message: whatever locks the statement
    takes are held by the server alone, and not while somebody makes up his mind to commit."""
    await connection.execute(f"{closing}; COMMIT")


async def commit(connection: Connection) -> None:
    if await connection.execute("COMMIT") != "COMMIT":
        raise asyncpg.InFailedSQLTransactionError("a statement of this transaction had failed")


def literal(value: str | int | None) -> str:
    """A value as it stands in the text of a statement, however the server reads backslashes."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(int(value))
    if "\0" in value:
        raise ValueError("a statement cannot hold the character NUL")
    doubled = value.replace("'", "''").replace("\\", "\\\\")
    return f" E'{doubled}'" if "\\" in value else f"'{doubled}'"


def _in_doubt(error: BaseException) -> bool:
    """Whether a statement may still be under way, or its connection is of no more use, and others
    may be like it."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:  # somebody may raise an error from itself
        causes.append(cause)
        cause = cause.__cause__
    return any(
        isinstance(each, (*STATEMENT_LOST, _DEMOTED, asyncio.CancelledError)) for each in causes
    )


def _is_cancelling(connection: Any) -> bool:
    """Whether a statement was given up whose end the server has not told yet."""
    cancelling: bool = connection._protocol._is_cancelling()  # noqa: SLF001 - as the driver's pool asks
    return cancelling
