"""Whether somebody stands before the database who lends a server for one transaction at a time
(pgbouncer with `pool_mode=transaction`), and what then does not work there.

Such a pooler has no sessions, and news, the locks of workers and migrations need some: they take
the direct address, and without one the start is refused. Whether prepared statements find their
server depends on its version and settings, so that is tried out.

A pooler shows itself by the number it gives us for our session, which is not the server's. It lends
for one transaction if another session of ours gets the server that the first had a moment ago.
Gap: a pooler that passes the server's number on is taken for the server.
"""

import asyncpg

from safelight.errors import ConfigurationError
from safelight.infra.connecting import LIMITS, Address, Connection, look_at
from safelight.infra.knock import DIRECT, URL, in_words, knock
from safelight.infra.pool import end

_LOOKS = 5
_BACKEND = "SELECT pg_backend_pid()"
_IS_KEPT = "SELECT count(*) > 0 FROM pg_prepared_statements WHERE name = $1"
_SESSIONS = "listening for news, the locks of workers and migrations need sessions of their own"


async def survey(url: str, direct: str | None) -> Address:
    """How to reach the database. Refused: a way on which not everything works."""
    lent = await _is_lent(url, URL)
    if direct is not None and await _is_lent(direct, DIRECT):
        raise ConfigurationError(
            f"{DIRECT} leads to a pooler that lends a connection for one transaction at a time, "
            f"and {_SESSIONS}. Set it to the address of PostgreSQL itself."
        )
    if not lent:
        return Address(url, direct or url)
    if direct is None:
        raise ConfigurationError(
            f"{URL} leads to a pooler that lends a connection for one transaction at a time "
            f"(pgbouncer with pool_mode=transaction), and {_SESSIONS}. Set {DIRECT} to the address "
            "of PostgreSQL itself; everything else goes through the pooler."
        )
    return Address(url, direct, lent=True, prepares=await _prepares(url))


async def _is_lent(url: str, setting: str) -> bool:
    one = await knock(lambda: look_at(url, LIMITS), setting)
    try:
        with in_words(setting):
            if await one.fetchval(_BACKEND) == one.get_server_pid():
                return False
            other = await look_at(url, LIMITS)
            try:
                return await _changes_hands(one, other)
            finally:
                end(other)
    finally:
        end(one)


async def _changes_hands(one: Connection, other: Connection) -> bool:
    """A transaction keeps its server; what the first session had is free for it, or is not."""
    for _ in range(_LOOKS):
        before = await one.fetchval(_BACKEND)
        try:
            await other.execute("BEGIN")
        except asyncpg.PostgresError as error:
            raise ConfigurationError(
                f"{URL} leads to a pooler that allows no transactions ({error}). Set pool_mode "
                "there to transaction or session."
            ) from error
        if await other.fetchval(_BACKEND) == before or await one.fetchval(_BACKEND) != before:
            return True
        await other.execute("ROLLBACK")
    return False


async def _prepares(url: str) -> bool:
    """A pooler that looks after prepared statements gives them names of its own."""
    connection = await knock(lambda: look_at(url, LIMITS))
    name = f"safelight_{connection.get_server_pid()}"
    try:
        with in_words():
            await connection.execute("BEGIN")
            statement = await connection.prepare(_IS_KEPT, name=name)
            as_we_called_it: bool = await statement.fetchval(name)
            if as_we_called_it:
                await connection.execute(f'DEALLOCATE "{name}"')
            return not as_we_called_it
    finally:
        end(connection)
