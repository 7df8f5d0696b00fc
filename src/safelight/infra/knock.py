"""The first connections of a process. Whoever starts it reads in words why nobody opens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import asyncpg
import structlog

from safelight.errors import ConfigurationError, Unavailable
from safelight.infra.connecting import Connection
from safelight.infra.db import UNREACHABLE

URL, DIRECT = "SAFELIGHT_DATABASE_URL", "SAFELIGHT_DATABASE_DIRECT_URL"
_TRIES, _PAUSE_SECONDS = 60, 1.0

log = structlog.get_logger()


async def knock(connect: Callable[[], Awaitable[Connection]], setting: str = URL) -> Connection:
    """Where the server has no connection left it waits for one, for a minute. `setting` has the
    address."""
    for tries_left in reversed(range(_TRIES)):
        try:
            with in_words(setting):
                return await connect()
        except Unavailable as error:
            if not tries_left or not isinstance(error.__cause__, asyncpg.TooManyConnectionsError):
                raise
            log.warning("the database has no connection left; trying again", for_tries=tries_left)
            await asyncio.sleep(_PAUSE_SECONDS)
    raise AssertionError


@contextmanager
def in_words(setting: str = URL) -> Iterator[None]:
    try:
        yield
    except asyncpg.TooManyConnectionsError as error:
        raise Unavailable(
            f"The database has no connection left ({error}). Raise its max_connections, run fewer "
            "processes or give each fewer connections (SAFELIGHT_DATABASE_POOL_SIZE); see "
            "docs/operating.md."
        ) from error
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise Unavailable(
            f"No server that {setting} names takes writes: there is only a standby. Name the "
            "primary too, or all servers, separated by commas."
        ) from error
    except UNREACHABLE as error:
        raise Unavailable(f"The database cannot be reached: {error!r}") from error
    except (asyncpg.PostgresError, ValueError) as error:
        raise ConfigurationError(
            f"The database refused the connection: {error}. Check {setting}."
        ) from error
