"""Whom PostgreSQL runs as, and how its processes are started so that none outlives us.

PostgreSQL refuses root. Started by root, it runs as the owner of the cluster, else as `postgres`,
else as `nobody`; started by anybody else, it runs as that user.

Guarantee (Linux): a child is signalled when the thread that started it ends, by kill -9 too. The
signal follows the thread, so only the main thread may start one.
Gaps: other systems have no such signal; a child then outlives a killed parent until the next start
ends it. `nobody` may be shared with other services of the machine, which could then read the data.
"""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safelight.errors import SafelightError

# Nothing of ours is handed on: PGDATA, PGPORT and a stranger's locale would change what starts.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
_PR_SET_PDEATHSIG = 1
# Loaded here: nothing may be looked up between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_REACH = 'for path; do [ -x "$path" ] || { printf %s "$path"; exit 0; }; done'


class PostgresFailed(SafelightError):
    """PostgreSQL did not do what it was asked."""

    code = "POSTGRES_FAILED"
    status = 503


class OutOfReach(SafelightError):
    """The user that PostgreSQL runs as cannot get to a directory it needs."""

    code = "DATA_DIRECTORY_OUT_OF_REACH"


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int


def account_for(cluster: Path) -> Account | None:
    """None when we are not root, and PostgreSQL can run as we do."""
    if os.geteuid() != 0:
        return None
    if cluster.exists():
        return _owner(cluster)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise PostgresFailed(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor "
        "`nobody`. Add one of them, or start Safelight as an ordinary user."
    )


def _owner(cluster: Path) -> Account:
    found = cluster.stat()
    if found.st_uid == 0:
        raise PostgresFailed(
            f"{cluster} belongs to root, and PostgreSQL refuses to run as root. Give it to another "
            f"user, for example with: chown -R nobody {cluster}"
        )
    try:
        name = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        name = str(found.st_uid)
    return Account(name, found.st_uid, found.st_gid)


def ensure_reach(account: Account, directory: Path) -> None:
    blocked = first_out_of_reach(account, [*reversed(directory.parents), directory])
    if blocked is not None:
        raise OutOfReach(
            f"PostgreSQL cannot run as root, so it runs as `{account.name}`, and that user may not "
            f"enter {blocked}. Choose a data directory elsewhere (--data-dir /var/lib/safelight), "
            f"let others pass through with `chmod o+x {blocked}`, or start Safelight as an "
            "ordinary user."
        )


def first_out_of_reach(account: Account, paths: Sequence[Path]) -> Path | None:
    """Asks the system as that user: access lists and the like count too, not only mode bits."""
    answer = run(["/bin/sh", "-c", _REACH, "sh", *map(str, paths)], account)
    return Path(answer) if answer else None


def run(argv: Sequence[str | Path], account: Account | None, text: str = "") -> str:
    """Runs to the end and returns what was printed; it is killed if we die first."""
    with launch(argv, account, signal.SIGKILL, subprocess.PIPE) as process:
        try:
            output = process.communicate(text.encode())[0].decode(errors="replace")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise PostgresFailed(
            f"{Path(argv[0]).name} failed (status {process.returncode}): {output.strip()[-2000:]}"
        )
    return output


def launch(
    argv: Sequence[str | Path], account: Account | None, death_signal: signal.Signals, output: int
) -> subprocess.Popen[bytes]:
    """Starts a child in a session of its own, so that Ctrl-C in our terminal stays with us."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Start PostgreSQL from the main thread: it ends with the thread.")
    with warnings.catch_warnings():
        # Newer Pythons warn of forking beside threads; the child makes two system calls and execs.
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        return subprocess.Popen(  # noqa: S603 - a list of our own making, no shell
            argv,
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE if output == subprocess.PIPE else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_tie_to_parent(death_signal),  # noqa: PLW1509 - see the warning above
            **_identity(account),
        )


def _identity(account: Account | None) -> dict[str, Any]:
    """Applied by subprocess before preexec_fn: changing user would clear the death signal."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _tie_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    if _prctl is None:
        return None
    prctl, number, parent = _prctl, int(death_signal), os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the signal was set, and none will come
            os._exit(1)

    return in_child
