"""Two PostgreSQL servers, one following the other, that change places or lose one of them.

    with pair(directory) as (first, second):       # `first` takes writes, `second` follows it
        first.kill()
        await second.promote()

Clients come through relays (`faults/relay.py`): one name each, or one that moves.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg

from safelight.infra.data_directory import DataDirectory
from safelight.infra.migrate import migrate
from safelight.infra.postgres.account import account_for
from safelight.infra.postgres.binaries import find_binaries, major_version, within_reach
from safelight.infra.postgres.cluster import Tools, read_pid_file
from safelight.infra.postgres.process import Postmaster, settings_for
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.testing.waiting import eventually

_FAST = {"fsync": "off", "full_page_writes": "off"}  # a commit is on its way to the standby


class _Postmaster(Postmaster):
    """A standby never says that it is `ready`."""

    def _is_ready(self) -> bool:
        found = read_pid_file(self._tools.directory.cluster)
        ready = {"ready", "standby"}
        return found is not None and found.pid == self.pid and found.status.strip() in ready


class Node:
    def __init__(self, data_dir: Path) -> None:
        self._directory = DataDirectory(data_dir)
        self._socket = data_dir / "run"
        account = account_for(self._directory.cluster)
        binaries = within_reach(find_binaries(), account, self._directory.postgres)
        self._tools = Tools(self._directory, account, binaries)
        password = quote(self._directory.password.read_text().strip(), safe="")
        where = quote(str(self._socket), safe="")
        self.url = f"postgresql://safelight:{password}@/safelight?host={where}&port=5432"
        self._conninfo = f"host={self._socket} port=5432 user=safelight password={password}"
        self._postmaster: _Postmaster | None = None

    def start(self, *, following: "Node | None" = None) -> None:
        mark = self._directory.cluster / "standby.signal"
        extra = dict(_FAST)
        if following:
            mark.touch()
            extra |= {
                "primary_conninfo": following._conninfo,
                "wal_retrieve_retry_interval": "100ms",
            }
        major = major_version(self._tools.binaries, self._tools.account)
        settings = settings_for(self._tools, major, self._socket, extra)
        self._postmaster = _Postmaster(self._tools, settings, self._socket)
        steps = self._postmaster.rise()
        eventually(lambda: next(steps, "up") == "up")

    def stop(self) -> None:
        """In order: whoever follows has everything."""
        if self._postmaster and self._postmaster.pid:
            self._postmaster.shut_down()

    def kill(self) -> None:
        postmaster = self._postmaster
        if postmaster and postmaster.pid:
            os.kill(postmaster.pid, signal.SIGQUIT)
            eventually(lambda: postmaster.pid is None)

    async def promote(self) -> None:
        connection = await asyncpg.connect(self.url)
        assert await connection.fetchval("SELECT pg_promote()")
        await connection.close()

    async def has_all_of(self, other: "Node") -> bool:
        """Whether it has what the other one has written by now."""
        theirs, ours = await asyncpg.connect(other.url), await asyncpg.connect(self.url)
        written = await theirs.fetchval("SELECT pg_current_wal_lsn()::text")
        behind = await ours.fetchval(
            "SELECT pg_wal_lsn_diff($1::text::pg_lsn, pg_last_wal_replay_lsn())", written
        )
        await theirs.close()
        await ours.close()
        return bool(behind <= 0)


@contextmanager
def pair(directory: Path) -> Iterator[tuple[Node, Node]]:
    """With Safelight's tables. The second began as a copy of the first while that was stopped."""
    first, second = directory / "first", directory / "second"
    server = EmbeddedPostgres(first, extra_settings=_FAST)
    asyncio.run(migrate(server.start()))
    server.stop()
    shutil.rmtree(first / "run", ignore_errors=True)
    subprocess.run(["cp", "-a", first, second], check=True)
    nodes = Node(first), Node(second)
    try:
        nodes[0].start()
        nodes[1].start(following=nodes[0])
        yield nodes
    finally:
        for node in nodes:
            node.kill()
