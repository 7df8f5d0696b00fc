"""Connections to the database: where they lead, and what holds on each.

Guarantees
- Connections lead to a server that takes writes: of the hosts an address names, and behind a name
  that has moved on, a standby is not one. (An address may ask for another kind itself, by
  `target_session_attrs`.)
- The limits hold on every connection, and nothing about them is asked for in the first message,
  where a pooler refuses what it does not know.
- Through a pooler that lends a server for one transaction at a time nothing is left behind on it:
  limits are set in each transaction and end with it. A statement by itself has ours alone; it holds
  nothing while nobody asks for the next one. Where the pooler does not know prepared statements,
  there are none.
"""

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from safelight.infra.hosts import dial
from safelight.infra.pool import end

if TYPE_CHECKING:  # the driver's classes cannot be subscripted at run time
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

_WRITES = SessionAttribute.read_write
_STATEMENTS = 100  # prepared and kept, on each connection
_KEEPALIVE = (10, 5, 3)  # idle, between probes, how many


@dataclass(frozen=True, slots=True)
class Address:
    """`direct` is for sessions: news, the locks of workers, migrations. It is `url` itself, unless
    that is a pooler's."""

    url: str
    direct: str
    lent: bool = False  # a server for one transaction at a time
    prepares: bool = True  # prepared statements find the server they were made on

    @classmethod
    def plain(cls, url: str) -> "Address":
        return cls(url, url)


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

    def of_transactions(self) -> dict[str, str]:
        """As the server takes them."""
        return {
            "idle_in_transaction_session_timeout": _ms(self.idle),
            "lock_timeout": _ms(self.lock),
            "standard_conforming_strings": "on",
        }

    def of_sessions(self, **more: str) -> dict[str, str]:
        idle, interval, count = _KEEPALIVE
        return {
            **self.of_transactions(),
            "tcp_keepalives_idle": str(idle),
            "tcp_keepalives_interval": str(interval),
            "tcp_keepalives_count": str(count),
            "tcp_user_timeout": _ms(self.unacknowledged),
            **more,
        }


LIMITS = Limits()


async def connect(
    url: str, limits: Limits | None = None, *, command: float | None = None, **more: str
) -> Connection:
    """A session. `command` None: statements take what they take. `more` are further settings."""
    limits = limits or LIMITS
    connection = await _open(url, limits, command=command, statements=_STATEMENTS)
    settings = _set("SET", limits.of_sessions(**more))
    try:
        await connection.execute(settings, timeout=limits.connect)
    except BaseException:
        end(connection)
        raise
    return connection


async def connect_to(address: Address, limits: Limits) -> Connection:
    """One for the pool, where `begin` is the first statement of each transaction."""
    if not address.lent:
        return await connect(address.url, limits, command=limits.command)
    statements = _STATEMENTS if address.prepares else 0
    return await _open(address.url, limits, command=limits.command, statements=statements)


async def look_at(url: str, limits: Limits) -> Connection:
    """One that takes nothing for granted: whoever stands at the address may be a pooler."""
    return await _open(url, limits, command=limits.connect, statements=0)


def begin(address: Address, limits: Limits) -> str:
    """How a transaction begins."""
    return f"BEGIN; {_set('SET LOCAL', limits.of_transactions())}" if address.lent else "BEGIN"


async def _open(url: str, limits: Limits, *, command: float | None, statements: int) -> Connection:
    connection = await dial(
        url,
        limits.connect,
        command_timeout=command,
        statement_cache_size=statements,
        target_session_attrs=None if "target_session_attrs" in url else _WRITES,
    )
    _keep_alive(connection, limits)
    return connection


def _set(how: str, settings: dict[str, str]) -> str:
    return "; ".join(f"{how} {name} = '{value}'" for name, value in settings.items())


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
