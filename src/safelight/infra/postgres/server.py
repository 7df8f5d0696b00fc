"""The embedded PostgreSQL: a direct child of `serve`, started, watched and stopped by it.

Guarantees
- One owner: `serve.lock` names it, and a second start is refused with its pid.
- It ends with us: stop() shuts it down, and on Linux it shuts itself down when we are killed.
- What was committed stays (fsync is on): after a kill -9 of anybody the next start recovers, and
  watch() restarts a postmaster that died under us, at the same address.
- Nobody enters over the network or without the generated password: there is one socket, in a
  directory closed to other users, and only the user of `serve` can read the password.

Gaps
- A postmaster that hangs without dying is not noticed here; readiness checks tell.
- A supervisor that signals every process (systemd's default) shuts PostgreSQL down before the
  server has drained: give it KillMode=mixed. In a container, run an init as the first process.
- The application's role is the cluster's superuser; the cluster holds nothing else.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import structlog

from safelight.errors import SafelightError
from safelight.infra.data_directory import (
    DataDirectory,
    DataDirectoryHeld,
    DataDirectoryUnusable,
    DirectoryLock,
    create_root,
    is_held,
    open_to,
    remove_socket_directory,
    socket_directory,
    write_private,
)
from safelight.infra.failpoints import hit
from safelight.infra.injected import Ids, RandomIds
from safelight.infra.postgres.account import Account, OutOfReach, PostgresFailed, account_for
from safelight.infra.postgres.binaries import find_binaries, within_reach
from safelight.infra.postgres.cluster import (
    DATABASE,
    ROLE,
    PostgresStillRunning,
    Tools,
    WrongPostgresVersion,
    ensure_cluster,
    ensure_password,
    until_alone,
)
from safelight.infra.postgres.process import Postmaster, settings_for

__all__ = [
    "DataDirectoryHeld",
    "DataDirectoryUnusable",
    "EmbeddedPostgres",
    "NoServer",
    "OutOfReach",
    "PostgresFailed",
    "PostgresStillRunning",
    "WrongPostgresVersion",
    "attached",
    "join",
]

_POLL_SECONDS = 0.02
_WATCH_SECONDS = 0.2
_ATTACH_POLL_SECONDS = 0.1
_ATTACH_SECONDS = 60.0
_LOCK_PATIENCE_SECONDS = 1.0
_FIRST_WAIT, _LONGEST_WAIT, _STEADY_SECONDS = 0.2, 10.0, 60.0

log = structlog.get_logger()


class NoServer(SafelightError):
    """No Safelight server runs on the data directory."""

    code = "NO_SERVER"
    status = 503


class EmbeddedPostgres:
    def __init__(
        self,
        data_dir: Path,
        *,
        extra_settings: Mapping[str, str] | None = None,
        ids: Ids | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """`between` is called between the steps of a start, and ends it by raising."""
        self._directory = DataDirectory(data_dir.resolve())
        self._extra_settings = dict(extra_settings or {})
        self._ids = ids or RandomIds()
        self._between = between
        self._lock = DirectoryLock(self._directory)
        self._postmaster: Postmaster | None = None
        self._url: str | None = None
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        """Stays the same when watch() restarts the postmaster."""
        if self._url is None:
            raise NoServer("The embedded PostgreSQL is not running.")
        return self._url

    @property
    def pid(self) -> int | None:
        """The postmaster's, while it lives."""
        return None if self._postmaster is None else self._postmaster.pid

    def start(self, *, publish: bool = True) -> str:
        """From the main thread. Unpublished, no other command joins, and stopping disturbs none."""
        account = account_for(self._directory.cluster)
        fresh = create_root(self._directory, account)
        self._lock.acquire(_LOCK_PATIENCE_SECONDS if publish else 0)
        self._stopped.clear()
        try:
            self._directory.url.unlink(missing_ok=True)
            self._directory.server.unlink(missing_ok=True)
            open_to(self._directory, account, fresh=fresh)
            self._prepare(account)
            if publish:
                hit("postgres.publish_url")
                write_private(self._directory.url, self.url)
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Fast shutdown; within half a minute it has ended one way or another."""
        self._stopped.set()
        if not self._lock.held:
            return
        self._directory.url.unlink(missing_ok=True)
        self._directory.server.unlink(missing_ok=True)
        if self._postmaster is not None:
            self._postmaster.shut_down()
            remove_socket_directory(self._directory)
        self._postmaster = self._url = None
        self._lock.release()

    async def watch(self) -> None:
        """Restarts a postmaster that dies, until stop(). In the main thread's loop. Nothing else
        ends it: without it a database that dies later would stay dead."""
        postmaster, wait = self._postmaster, 0.0
        while postmaster is not None:
            await self._until_dead(postmaster)
            wait = next_wait(wait, postmaster.lived())
            if self._stopped.is_set():
                return
            log.error("postgres.died", status=postmaster.status, restart_in=wait)
            await asyncio.sleep(wait)
            await self._revive(postmaster)

    def _prepare(self, account: Account | None) -> None:
        directory = self._directory
        self._sleep_through(until_alone(directory.cluster))
        tools = Tools(
            directory, account, within_reach(find_binaries(), account, directory.postgres)
        )
        self._between()
        major = ensure_cluster(tools)
        self._between()
        password = ensure_password(tools, self._ids)
        socket = socket_directory(directory, account)
        settings = settings_for(tools, major, socket, self._extra_settings)
        self._between()
        self._postmaster = Postmaster(tools, settings, socket)
        self._sleep_through(self._postmaster.rise())
        self._url = _url(password, socket)

    def _sleep_through(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self._between()
            time.sleep(_POLL_SECONDS)

    async def _until_dead(self, postmaster: Postmaster) -> None:
        while postmaster.pid is not None:
            with suppress(OSError):  # a full disk, mostly; and it is only the log
                postmaster.cap_log()
            await asyncio.sleep(_WATCH_SECONDS)

    async def _revive(self, postmaster: Postmaster) -> None:
        """One attempt; stop() in the meantime calls it off."""
        steps = postmaster.rise()
        try:
            while not self._stopped.is_set():
                next(steps)
                await asyncio.sleep(_POLL_SECONDS)
        except StopIteration:
            log.warning("postgres.restarted", pid=postmaster.pid)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
            log.error("postgres.restart_failed", error=str(error))  # noqa: TRY400 - said in words


def join(data_dir: Path) -> str:
    """How to reach the database while a `serve` runs on the directory."""
    directory = DataDirectory(data_dir.resolve())
    try:
        if not is_held(directory):
            raise NoServer(
                f"No Safelight server runs on {directory.root}. Start one with "
                f"`safelight serve --data-dir {directory.root}`."
            )
        return directory.url.read_text().strip()
    except FileNotFoundError as error:
        raise NoServer(
            f"The server on {directory.root} is starting or stopping. Try again in a moment."
        ) from error
    except PermissionError as error:
        raise NoServer(
            f"{directory.root} belongs to another user. Run this command as the user that runs "
            "`safelight serve`."
        ) from error


@contextmanager
def attached(data_dir: Path) -> Iterator[str]:
    """The database of a running `serve`, else one started for the duration. Main thread only."""
    server = EmbeddedPostgres(data_dir)
    url = _join_or_start(data_dir, server)
    try:
        yield url
    finally:
        server.stop()


def _join_or_start(data_dir: Path, server: EmbeddedPostgres) -> str:
    """Waits for a `serve` that is starting, and for another command to be done with its own."""
    deadline = time.monotonic() + _ATTACH_SECONDS
    while True:
        with suppress(NoServer):
            return join(data_dir)
        try:
            return server.start(publish=False)
        except DataDirectoryHeld:
            if time.monotonic() > deadline:
                raise
        time.sleep(_ATTACH_POLL_SECONDS)


def next_wait(previous: float, lived: float) -> float:
    """At once after a steady life, else twice the wait before, up to the longest."""
    if lived > _STEADY_SECONDS:
        return 0.0
    return min(max(previous * 2, _FIRST_WAIT), _LONGEST_WAIT)


def _url(password: str, socket: Path) -> str:
    where = quote(str(socket), safe="")
    return f"postgresql://{ROLE}:{quote(password, safe='')}@/{DATABASE}?host={where}&port=5432"
