"""Commits that wait for a standby.

Where PostgreSQL replicates synchronously, a commit is answered once a standby has it too. Somebody
may cancel that waiting (`pg_cancel_backend`, when commits hang): the server then says that all went
well, with a warning beside it, and the commit is lost if this server is lost before a standby had
it. Whoever runs statements asks here before an answer is believed.
"""

from typing import Any
from weakref import WeakSet

import asyncpg

_WAITS = "SyncRepWaitForLSN"
_cut_short: WeakSet[Any] = WeakSet()  # connections


def watch(connection: Any) -> None:
    connection.add_log_listener(_hear)


def _hear(connection: Any, message: Any) -> None:
    """A warning like any other, told apart by the place in the server it comes from, whatever
    language it is in. It is heard before its statement's answer is handed to whoever waits."""
    if getattr(message, "server_source_function", None) == _WAITS:
        _cut_short.add(connection)


def was_cut_short(connection: Any) -> bool:
    return bool(_cut_short) and connection in _cut_short


def confirm(connection: Any) -> None:
    """Raises if what was committed may be lost with its server."""
    if was_cut_short(connection):
        raise asyncpg.StatementCompletionUnknownError("committed, and perhaps on no standby")
