"""The database, and the one way to run statements on it.

Guarantees
- A connection is handed out clean, since nobody may leave SET, LISTEN or a session-level advisory
  lock on a pooled connection (asking the server to reset it costs more than most of our
  statements). Giving it back neither raises nor waits: one in doubt is ended instead.
- Connections lead to a server that takes writes: of the hosts an address names, and behind a name
  that has moved on, a standby is not one. Whoever finds itself on a server that has become one ends
  what it has, and the next statement goes where the writes are. (An address may ask for another
  kind itself, by `target_session_attrs`.)
- A server that cannot be reached is `Unavailable`; one lost in mid-statement is one of LOST, and
  then the outcome of a COMMIT is unknown. Both, and a server that is short of something, are AWAY.
- Connections are shared between organizations (turns.py): however many statements of one wait for
  a lock or for each other, another's next one waits for a single one of them.
- No wait is without an end, on either side (`Limits`): a process that stands still, or whose
  connections went silent, is in nobody's way for long. One statement that is lost or overdue ends
  the idle connections too, which may be as silent.

Every function of a repo is declared a `read` or a `write`. A write has a failpoint right before it,
named after the feature and the function (`submissions.move`), at which tests make the world end.
"""

import asyncio
import json
import socket
import struct
import time
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from safelight.errors import Unavailable
from safelight.infra import failpoints
from safelight.infra.pool import Pool, end
from safelight.infra.turns import Turns

if TYPE_CHECKING:  # the driver's classes cannot be subscripted at run time
    Connection = asyncpg.Connection[asyncpg.Record]
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
# All of it, for code that waits and tries again.
AWAY: tuple[type[Exception], ...] = (Unavailable, *UNREACHABLE)

# The server was the one that takes writes and is not any more, and all its connections are as good.
_DEMOTED = asyncpg.ReadOnlySQLTransactionError
_RELEASE_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_WRITES = SessionAttribute.read_write
_HALFVEC = struct.Struct("!HH")  # how many numbers, and nothing
_KEEPALIVE = (10, 5, 3)  # idle, between probes, how many


@dataclass(frozen=True, slots=True)
class Limits:
    """How long anything may take, in seconds. Together they make sure that a process that stands
    still holds up others for at most `idle`, and one whose connections went silent is itself again
    after `command` and `connect`. `idle` and `lock` are the server's, so they hold when we are
    gone. Waiting for a lock outlasts whoever stands still with it, and ends before the statement
    does, so that the server says what was waited for."""

    connect: float = 10
    acquire: float = 15
    command: float = 15
    idle: float = 10  # in a transaction
    lock: float = 12
    unacknowledged: float = 15

    def as_settings(self, **more: str) -> dict[str, str]:
        """As the server takes them."""
        idle, interval, count = _KEEPALIVE
        return {
            "idle_in_transaction_session_timeout": _ms(self.idle),
            "lock_timeout": _ms(self.lock),
            "standard_conforming_strings": "on",
            "tcp_keepalives_idle": str(idle),
            "tcp_keepalives_interval": str(interval),
            "tcp_keepalives_count": str(count),
            "tcp_user_timeout": _ms(self.unacknowledged),
            **more,
        }


LIMITS = Limits()
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


async def connect(
    url: str, limits: Limits | None = None, *, command: float | None = None, **more: str
) -> "asyncpg.Connection[asyncpg.Record]":
    """One outside the pool, within the same limits; `command` None: statements take what they take.
    `more` are further settings of the session."""
    limits = limits or LIMITS
    connection = await asyncpg.connect(
        url,
        timeout=limits.connect,
        command_timeout=command,
        server_settings=limits.as_settings(**more),
        target_session_attrs=None if "target_session_attrs" in url else _WRITES,
    )
    _keep_alive(connection, limits)
    return connection


class Database:
    def __init__(self, url: str, limits: Limits, pool_size: int) -> None:
        self.url = url
        self.limits = limits
        self.pool = Pool(self._connect)
        self.turns = Turns(pool_size)

    @classmethod
    async def open(cls, url: str, *, pool_size: int, limits: Limits | None = None) -> "Database":
        db = cls(url, limits or LIMITS, pool_size)
        try:
            db.pool.give_back(await db.pool.another())
        except UNREACHABLE as error:
            raise Unavailable(f"The database cannot be reached: {error}") from error
        return db

    async def _connect(self) -> Any:
        connection = await connect(self.url, self.limits, command=self.limits.command)
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
            await connection.execute("BEGIN")
            yield connection
            await commit(connection)

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
    """A connection for as long as `async with` lasts. Giving it back neither raises nor waits for
    long: one in doubt is ended instead."""

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
                return mine, db.pool.at_hand() or await db.pool.another()
        except BaseException as error:
            if mine is not None:
                db.turns.give(mine)
            if isinstance(error, UNREACHABLE):
                raise Unavailable from error
            raise

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
        except Exception:  # noqa: BLE001 - it is of no more use to anybody
            end(connection)
        except BaseException:  # cancelled in the middle of it
            end(connection)
            raise
        finally:
            pool.give_back(connection)
            self._db.turns.give(self._mine)


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


async def prepare(connection: Any) -> None:
    """Makes jsonb columns Python values, and vectors of short floats their bytes, where the server
    knows these; also for connections outside the pool."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    schema = await connection.fetchval(
        "SELECT typnamespace::regnamespace::text FROM pg_type WHERE typname = 'halfvec'"
    )
    if schema:
        await connection.set_type_codec(
            "halfvec", schema=schema, encoder=_to_halfvec, decoder=_of_halfvec, format="binary"
        )


def _to_halfvec(vector: bytes) -> bytes:
    """Of little-endian float16. As text, a thousand numbers would take a millisecond."""
    numbers = array("H", vector)
    numbers.byteswap()
    return _HALFVEC.pack(len(numbers), 0) + numbers.tobytes()


def _of_halfvec(sent: bytes) -> bytes:
    numbers = array("H", sent[_HALFVEC.size :])
    numbers.byteswap()
    return numbers.tobytes()


def _in_doubt(error: BaseException) -> bool:
    """Whether a statement may still be under way, or its connection is of no more use, and others
    may be like it."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:  # somebody may raise an error from itself
        causes.append(cause)
        cause = cause.__cause__
    return any(isinstance(each, (*STATEMENT_LOST, _DEMOTED, asyncio.CancelledError)) for each in causes)


def _is_cancelling(connection: Any) -> bool:
    """Whether a statement was given up whose end the server has not told yet."""
    cancelling: bool = connection._protocol._is_cancelling()  # noqa: SLF001 - as the driver's pool asks
    return cancelling


def _keep_alive(connection: Any, limits: Limits) -> None:
    """Our side of what the server is told; a socket in the file system needs none of it."""
    line = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg has no other way
    if line is None or line.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    idle, interval, count = _KEEPALIVE
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", idle),
        ("TCP_KEEPINTVL", interval),
        ("TCP_KEEPCNT", count),
        ("TCP_USER_TIMEOUT", int(limits.unacknowledged * 1000)),
    ):
        if option := getattr(socket, name, None):
            line.setsockopt(socket.IPPROTO_TCP, option, value)


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
