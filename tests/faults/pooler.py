"""A real pgbouncer before the tests' PostgreSQL.

with pooler(database_url, directory) as through:       # pool_mode=transaction
"""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import programs
from harness import free_port
from safelight.infra.postgres.account import account_for, launch
from safelight.testing.waiting import eventually

_CONFIG = """
[databases]
* = host={host} port=5432 user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
"""


@contextmanager
def pooler(url: str, directory: Path, mode: str = "transaction", **settings: str) -> Iterator[str]:
    """The address that goes through it. `directory` can be entered by PostgreSQL's user."""
    program = programs.find("pgbouncer")
    if program is None:
        pytest.skip("no pgbouncer here")
    parts, port = urlsplit(url), free_port()
    host = parse_qs(parts.query)["host"][0]
    text = _CONFIG.format(
        host=host, user=parts.username, password=unquote(parts.password or ""), port=port, mode=mode
    )
    config = directory / f"pgbouncer-{port}.ini"
    config.write_text(text + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    account = account_for(Path(host))  # whoever may enter there
    if account:
        shutil.chown(config, account.uid, account.gid)
    config.chmod(0o600)
    process = launch([program, config], account, signal.SIGKILL, subprocess.DEVNULL)
    try:
        eventually(lambda: _answers(port))
        yield f"postgresql://{parts.username}:any@127.0.0.1:{port}{parts.path}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0
