"""Connecting to a database whose address names several hosts, of which one takes writes.

The driver tries them one after the other, within one time for all: a machine that has vanished and
answers nothing uses all of it up, and those behind it are never asked. So each has its share, and
the one that was right the last time is asked first.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from safelight.infra import standby

if TYPE_CHECKING:  # the driver's classes cannot be subscripted at run time
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

_NOT_THIS_ONE = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_right: dict[str, str] = {}  # of each address


async def dial(url: str, seconds: float, **options: Any) -> Connection:
    """A connection; what commits on it wait for is watched (standby.py)."""
    each = sorted(addresses(url), key=lambda one: one != _right.get(url))
    errors: list[Exception] = []
    for one in each:
        try:
            connection: Connection = await asyncpg.connect(
                one, timeout=seconds / len(each), **options
            )
        except _NOT_THIS_ONE as error:
            errors.append(error)
        else:
            _right[url] = one
            standby.watch(connection)
            return connection
    # What a server says is more than that another was not there.
    raise next((e for e in errors if isinstance(e, asyncpg.PostgresError)), errors[-1])


def addresses(url: str) -> list[str]:
    """The same with one host each."""
    parts = urlsplit(url)
    who, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [parts._replace(netloc=f"{who}{at}{host}").geturl() for host in hosts.split(",")]
