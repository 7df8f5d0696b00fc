"""The data directory as processes share it: who holds it, and how the database in it is reached.

    serve.lock        flock of the one process that runs the database; holds its pid
    database.url      how others reach the database, there only while `serve` is ready (0600)
    server.url        how people reach that server, for the links that other commands print
    run/              the database's socket
    postgres/         cluster/, password, pg_hba.conf, log, and a copy of the programs when needed

Guarantees: a lock ends with its process, so none is ever stale; no file is seen half written; no
directory is opened to PostgreSQL's user but ours: one that was absent or empty at the first start.
Gaps: a child made by a bare fork keeps the lock alive. The holder's pid means nothing in another
container.
"""

import fcntl
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import SafelightError
from safelight.infra.files import sync_directory
from safelight.infra.postgres.account import Account, ensure_reach, first_out_of_reach

SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 103  # Linux takes 107, macOS 103
_POLL_SECONDS = 0.02


class DataDirectoryHeld(SafelightError):
    """Another process holds the data directory."""

    code = "DATA_DIRECTORY_HELD"
    status = 409


class DataDirectoryUnusable(SafelightError):
    """The data directory cannot be used by this user."""

    code = "DATA_DIRECTORY_UNUSABLE"


@dataclass(frozen=True)
class DataDirectory:
    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "serve.lock"

    @property
    def url(self) -> Path:
        return self.root / "database.url"

    @property
    def server(self) -> Path:
        return self.root / "server.url"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def cluster(self) -> Path:
        return self.postgres / "cluster"

    @property
    def password(self) -> Path:
        return self.postgres / "password"

    @property
    def rules(self) -> Path:
        return self.postgres / "pg_hba.conf"

    @property
    def log(self) -> Path:
        return self.postgres / "postgres.log"

    @property
    def socket_record(self) -> Path:
        return self.postgres / "socket-directory"


class DirectoryLock:
    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, patience: float) -> None:
        """Waits a little: `is_held` in another process takes the lock for an instant."""
        descriptor = _open_lock(self._directory)
        if not _locked_within(descriptor, patience):
            os.close(descriptor)
            raise DataDirectoryHeld(_held_message(self._directory))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """The file stays: removing it would let two processes hold two locks of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open_lock(directory: DataDirectory) -> int:
    try:
        return os.open(directory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError as error:
        raise DataDirectoryUnusable(
            f"This user may not write {directory.lock}. Run the command as the user that owns "
            f"{directory.root}, or choose another data directory with --data-dir."
        ) from error


def _locked_within(descriptor: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _held_message(directory: DataDirectory) -> str:
    pid = directory.lock.read_text().strip()
    holder = f"process {pid}" if pid else "another process"
    stop = f"Stop it first (kill {pid})" if pid else "Stop that first"
    return (
        f"The data directory {directory.root} is in use by {holder}: only one `safelight serve` "
        f"can run on it. {stop}, or choose another directory with --data-dir."
    )


def is_held(directory: DataDirectory) -> bool:
    try:
        descriptor = os.open(directory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def create_root(directory: DataDirectory, account: Account | None) -> bool:
    """Makes the data directory; true when there is nothing in it yet. A refusal leaves no trace."""
    root = directory.root
    if account is not None:
        ensure_reach(account, next(path for path in root.parents if path.exists()))
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = not any(root.iterdir())
    except OSError as error:
        raise DataDirectoryUnusable(
            f"The data directory {root} cannot be used: {error.strerror}. Run as the user that "
            "owns it, or choose another with --data-dir."
        ) from error
    if account is not None and not fresh and not directory.lock.exists():
        ensure_reach(account, root)  # somebody else's directory so far, and not ours to open
    return fresh


def open_to(directory: DataDirectory, account: Account | None, *, fresh: bool) -> None:
    """Makes what PostgreSQL needs; its user may pass through to the cluster, and see nothing."""
    mode = 0o700 if account is None else 0o711
    if account is not None:
        if fresh or first_out_of_reach(account, [directory.root]):
            directory.root.chmod(mode)
        ensure_reach(account, directory.root)
    directory.postgres.mkdir(exist_ok=True)
    directory.postgres.chmod(mode)
    for parent in (directory.root, directory.root.parent):
        with suppress(PermissionError):  # one may pass through there and not look
            sync_directory(parent)


def socket_directory(directory: DataDirectory, account: Account | None) -> Path:
    """`run` in the data directory, or a recorded one in the temporary directory."""
    path = directory.root / "run"
    if not _can_hold_socket(path):
        path = _recorded_socket_directory(directory, account)
    make_private(path, account)
    return path


def _can_hold_socket(path: Path) -> bool:
    """Clients read a comma as the end of one host and the start of another."""
    return len(os.fsencode(path / SOCKET_NAME)) <= _SOCKET_PATH_BYTES and "," not in str(path)


def _recorded_socket_directory(directory: DataDirectory, account: Account | None) -> Path:
    with suppress(FileNotFoundError):
        recorded = Path(directory.socket_record.read_text())
        if any(_is_private(recorded, uid) for uid in (_uid(account), os.geteuid())):
            return recorded
    made = Path(tempfile.mkdtemp(prefix="safelight-", dir=_temporary_root(account)))
    write_private(directory.socket_record, str(made))
    return made


def _temporary_root(account: Account | None) -> Path:
    chosen = Path(tempfile.gettempdir())
    if account is None and _can_hold_socket(chosen / "safelight-12345678"):
        return chosen
    return Path("/tmp")  # noqa: S108 - root's own TMPDIR may be closed to PostgreSQL's user


def make_private(path: Path, account: Account | None) -> None:
    """Owned by PostgreSQL's user and closed to others, or refused: others may write in /tmp."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if account is not None and _is_private(path, os.geteuid()):
        os.chown(path, account.uid, account.gid)
    if not _is_private(path, _uid(account)):
        raise DataDirectoryUnusable(
            f"{path} must be a directory of the user PostgreSQL runs as, closed to others. Remove "
            "it and start again."
        )


def _is_private(path: Path, uid: int) -> bool:
    with suppress(FileNotFoundError):
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077
    return False


def _uid(account: Account | None) -> int:
    return os.geteuid() if account is None else account.uid


def remove_socket_directory(directory: DataDirectory) -> None:
    with suppress(OSError):
        Path(directory.socket_record.read_text()).rmdir()
        directory.socket_record.unlink()


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Atomic and durable: readers see the old text or the new."""
    staging = path.with_name(f"{path.name}.new")
    staging.unlink(missing_ok=True)
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    staging.replace(path)
    sync_directory(path.parent)
