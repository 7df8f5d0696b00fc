"""The postmaster as a process of ours: its settings, its start, its log and its end.

Guarantees: "ready" is the postmaster's own word in its pid file, under the pid we started; its end
is bounded, from a fast shutdown over an immediate one to a kill.
Gap: lines written to the log while it is being emptied are lost.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from safelight.infra.data_directory import SOCKET_NAME, make_private
from safelight.infra.failpoints import hit
from safelight.infra.postgres.account import PostgresFailed, launch
from safelight.infra.postgres.cluster import Tools, read_pid_file, until_alone

_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",  # only names the socket
    "unix_socket_permissions": "0700",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "safelight",
}
_IO_METHOD_SINCE = 18
_LOG_BYTES = 5 * 1024 * 1024
_SLOW_START_SECONDS = 10.0
_SHUTDOWN = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))

log = structlog.get_logger()


def settings_for(
    tools: Tools, major: int, socket_directory: Path, extra: Mapping[str, str]
) -> dict[str, str]:
    places = {
        "unix_socket_directories": _quoted(socket_directory),
        "hba_file": str(tools.directory.rules),
    }
    newer = {"io_method": "sync"} if major >= _IO_METHOD_SINCE else {}
    return {**_SETTINGS, **places, **newer, **extra}


def _quoted(path: Path) -> str:
    """As one entry of a list, whatever the path holds."""
    return '"' + str(path).replace('"', '""') + '"'


class Postmaster:
    def __init__(self, tools: Tools, settings: Mapping[str, str], socket_directory: Path) -> None:
        self._tools = tools
        self._settings = settings
        self._socket_directory = socket_directory
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_at: float | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """None when it is dead or was never started."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def status(self) -> int | None:
        """How it ended; negative for a signal."""
        return None if self._process is None else self._process.returncode

    def lived(self) -> float:
        """Seconds since it was ready; 0 if the last start did not get that far."""
        return 0.0 if self._ready_at is None else time.monotonic() - self._ready_at

    def rise(self) -> Iterator[None]:
        """Each yield: wait a moment, asleep or on an event loop, whichever the caller has."""
        self._ready_at = None
        yield from until_alone(self._tools.directory.cluster)
        # As the pid file: PostgreSQL would refuse if its number now belongs to somebody else.
        (self._socket_directory / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        self._launch()
        yield from self._until_ready()
        self._ready_at = time.monotonic()

    def shut_down(self) -> None:
        if self._process is None:
            return
        for number, patience in _SHUTDOWN:
            self._process.send_signal(number)
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                log.warning("postgres.slow_to_stop", pid=self._process.pid, after=number.name)
            else:
                return

    def cap_log(self) -> None:
        """Empties it in place, since PostgreSQL keeps it open. What was in it is kept once, if the
        disk has room."""
        path = self._tools.directory.log
        if not path.exists() or path.stat().st_size <= _LOG_BYTES:
            return
        older = path.with_name(f"{path.name}.1")
        with suppress(OSError):
            older.touch(mode=0o600)
            shutil.copyfile(path, older)
        os.truncate(path, 0)

    def _launch(self) -> None:
        make_private(self._socket_directory, self._tools.account)
        self.cap_log()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        output = os.open(self._tools.directory.log, flags, 0o600)
        try:
            self._log_start = os.fstat(output).st_size
            hit("postgres.launch")
            # SIGINT, its fast shutdown, is also what it gets when we die.
            self._process = launch(self._command(), self._tools.account, signal.SIGINT, output)
        finally:
            os.close(output)

    def _command(self) -> list[str | Path]:
        pairs = (("-c", f"{name}={value}") for name, value in self._settings.items())
        options = [word for pair in pairs for word in pair]
        return [self._tools.binaries.postgres, "-D", self._tools.directory.cluster, *options]

    def _until_ready(self) -> Iterator[None]:
        """Without a limit: recovery after a crash takes as long as it takes."""
        slow = time.monotonic() + _SLOW_START_SECONDS
        while not self._is_ready():
            if self.pid is None:
                raise PostgresFailed(self._last_words())
            if time.monotonic() > slow:
                log.info("postgres.still_starting", log=str(self._tools.directory.log))
                slow += _SLOW_START_SECONDS
            yield

    def _is_ready(self) -> bool:
        found = read_pid_file(self._tools.directory.cluster)
        return found is not None and found.pid == self.pid and found.status.strip() == "ready"

    def _last_words(self) -> str:
        path = self._tools.directory.log
        with path.open("rb") as file:
            file.seek(self._log_start)
            words = file.read()[-2000:].decode(errors="replace").strip()
        return f"PostgreSQL did not start (status {self.status}). From {path}:\n{words}"
