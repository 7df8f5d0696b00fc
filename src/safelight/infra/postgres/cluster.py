"""The cluster on disk: made whole or not at all, of one version, and used by one server at a time.

Guarantees: a cluster is made in a directory beside and renamed when it is finished and on disk, so
one killed half-way is never taken for a cluster. The password file exists only once the role has
that password. A stale postmaster.pid, whatever process its number belongs to by now, does not
matter; a postmaster or backend of an earlier life does, and is waited for.
Gap: without /proc (macOS) only a postmaster that answers on its socket is found; PostgreSQL's own
check of its shared memory still refuses to start beside a living backend.
"""

import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safelight.infra.data_directory import DataDirectory, write_private
from safelight.infra.failpoints import hit
from safelight.infra.files import sync_directory
from safelight.infra.injected import Ids
from safelight.infra.postgres.account import Account, PostgresFailed, run
from safelight.infra.postgres.binaries import Binaries, major_version

ROLE = DATABASE = "safelight"
_RULES = "local all all scram-sha-256\nlocal replication all scram-sha-256\n"
_STAGING = "cluster.new-"
_BUILTIN_LOCALE_SINCE = 17
_ORPHAN_SECONDS = 30.0
_FAST_SECONDS = 5.0  # a fast shutdown may take that long
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_LINUX: bool = sys.platform == "linux"
_MACOS_PEER_PID = (0, 2)  # SOL_LOCAL, LOCAL_PEERPID


class PostgresStillRunning(PostgresFailed):
    """PostgreSQL of an earlier start does not end."""

    code = "POSTGRES_STILL_RUNNING"


class WrongPostgresVersion(PostgresFailed):
    """The database was made by another major version of PostgreSQL."""

    code = "POSTGRES_VERSION"


@dataclass(frozen=True)
class Tools:
    """What every step on the cluster needs."""

    directory: DataDirectory
    account: Account | None
    binaries: Binaries


@dataclass(frozen=True)
class PidFile:
    pid: int
    data: str
    socket: str
    status: str


def ensure_cluster(tools: Tools) -> int:
    """Makes the cluster unless there is one; returns its major version."""
    directory = tools.directory
    for abandoned in directory.postgres.glob(f"{_STAGING}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    major = major_version(tools.binaries, tools.account)
    if directory.cluster.exists():
        _check_version(directory.cluster, major)
    else:
        _make_cluster(tools, major)
    write_private(directory.rules, _RULES, mode=0o644)
    return major


def _check_version(cluster: Path, major: int) -> None:
    try:
        made_by = (cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError as error:
        raise PostgresFailed(
            f"{cluster} is not a PostgreSQL cluster: it has no PG_VERSION. Restore it from a "
            "backup, or move it away to begin with an empty database."
        ) from error
    if made_by != str(major):
        raise WrongPostgresVersion(
            f"The database in {cluster} was made by PostgreSQL {made_by}, and this installation "
            f"brings PostgreSQL {major}, which cannot open it. Go back to the Safelight release "
            "that used it, make a backup there, and restore that into a new data directory."
        )


def _make_cluster(tools: Tools, major: int) -> None:
    directory, account = tools.directory, tools.account
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=directory.postgres))
    if account is not None:
        os.chown(staging, account.uid, account.gid)
    hit("postgres.initdb")
    run([tools.binaries.initdb, f"--pgdata={staging}", *_initdb_options(major)], account)
    _run_sql(tools, staging, f"CREATE DATABASE {DATABASE}")
    hit("postgres.publish_cluster")
    staging.rename(directory.cluster)
    sync_directory(directory.postgres)


def _initdb_options(major: int) -> list[str]:
    """Sorting and case by code point, the same on every machine and with every libc."""
    options = ["--encoding=UTF8", "--locale=C", "--data-checksums"]
    if major >= _BUILTIN_LOCALE_SINCE:
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return [*options, f"--username={ROLE}", "--auth=reject", "--no-instructions"]


def _run_sql(tools: Tools, cluster: Path, statement: str) -> None:
    """Single-user mode: no server, no password."""
    run(
        [tools.binaries.postgres, "--single", "-D", cluster, "-c", "exit_on_error=on", "postgres"],
        tools.account,
        f"{statement}\n",
    )


def ensure_password(tools: Tools, ids: Ids) -> str:
    path = tools.directory.password
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    password = ids.secret()
    hit("postgres.set_password")
    _run_sql(tools, tools.directory.cluster, f"ALTER ROLE {ROLE} PASSWORD '{password}'")
    hit("postgres.keep_password")
    write_private(path, password)
    return password


def read_pid_file(cluster: Path) -> PidFile | None:
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        lines += [""] * (8 - len(lines))
        return PidFile(abs(int(lines[0])), lines[1], f"{lines[4]}/.s.PGSQL.{lines[3]}", lines[7])
    except (FileNotFoundError, ValueError):
        return None


def until_alone(cluster: Path, patience: float = _ORPHAN_SECONDS) -> Iterator[None]:
    """Ends what an earlier life left, then drops its pid file. Each yield: wait a moment.

    First by a fast shutdown. One that does not end by it (PostgreSQL 18 never does when it is told
    to while it recovers from a crash) is ended at once, which costs a recovery and no data."""
    pids = orphans(cluster)
    recorded = read_pid_file(cluster)
    postmaster = recorded.pid if recorded is not None and recorded.pid in pids else None
    _tell(postmaster, signal.SIGINT)
    deadline, fast_until = (time.monotonic() + seconds for seconds in (patience, _FAST_SECONDS))
    while pids := {pid for pid in pids | orphans(cluster) if _alive(pid)}:
        if time.monotonic() > deadline:
            raise PostgresStillRunning(_still_running(cluster, pids))
        if postmaster is not None and time.monotonic() > fast_until:
            _tell(postmaster, signal.SIGQUIT)
            postmaster = None
        yield
    # PostgreSQL would refuse to start if the number now belongs to somebody else, or to a zombie.
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _tell(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _still_running(cluster: Path, pids: set[int]) -> str:
    numbers = " ".join(map(str, sorted(pids)))
    return (
        f"PostgreSQL of an earlier start still works in {cluster} and does not end (process "
        f"{numbers}). Wait for it, or end it with `kill -QUIT {numbers}`, and start again: no "
        "committed data is lost by that."
    )


def orphans(cluster: Path) -> set[int]:
    """Living PostgreSQL processes of this cluster, postmaster or not."""
    if _LINUX:
        return _working_in(cluster)
    answering = answering_postmaster(cluster)
    return set() if answering is None else {answering}


def _working_in(cluster: Path) -> set[int]:
    """PostgreSQL makes the cluster its working directory; a zombie has none any more."""
    try:
        home = cluster.stat()
    except FileNotFoundError:
        return set()
    found = set()
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            named = process.name.isdigit() and (process / "comm").read_text() == "postgres\n"
            if named and os.path.samestat((process / "cwd").stat(), home):
                found.add(int(process.name))
    return found


def answering_postmaster(cluster: Path) -> int | None:
    """The pid in the pid file, if it is about this directory and that very process answers."""
    recorded = read_pid_file(cluster)
    try:
        if recorded is None or not cluster.samefile(recorded.data):
            return None
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(recorded.socket)
            connection.sendall(_SSL_REQUEST)
            genuine = connection.recv(1) in {b"N", b"S"} and _peer(connection) == recorded.pid
    except OSError:
        return None
    return recorded.pid if genuine else None


def _peer(connection: socket.socket) -> int:
    """The process that listens at the other end."""
    if _LINUX:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[0])
    return connection.getsockopt(*_MACOS_PEER_PID)


def _alive(pid: int) -> bool:
    if _LINUX:
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
