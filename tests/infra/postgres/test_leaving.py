"""A signal while `serve` is starting ends the start in order, whenever it comes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conftest import reachable_directory
from harness import Server, await_ready, eventually, launch

pytestmark = pytest.mark.process
# Where the start is when the signal comes: made to stay there, or known by what it leaves.
STEPS = ["migrate.apply", "queue.declare"]
# An exception out of a handler is ignored there, as in any hook, callback or destructor.
IN_A_FORK = """
import os, signal
def once(left=[1]):
    if left and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        left.pop()
        os.kill(os.getpid(), signal.SIGTERM)
os.register_at_fork(after_in_parent=once)
from safelight.cli.main import main
main()
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with reachable_directory() as directory:
        yield directory / "data"


def family(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def left(server: Server, number: signal.Signals) -> int:
    """Sends it; the exit code, once nothing of it is left."""
    children = family(server)
    server.process.send_signal(number)
    try:
        server.process.wait(20)
    finally:
        if server.process.poll() is None:
            server.kill()
        if server.process.stdout and not server.process.stdout.closed and not server.url:
            server.process.stdout.close()
    eventually(lambda: not any(child.is_running() for child in children))
    return server.process.returncode


def starting(data_dir: Path, point: str = "") -> Server:
    environment = {"SAFELIGHT_FAILPOINTS": f"{point}=hang"} if point else {}
    return launch(data_dir, environment=environment)


@pytest.mark.parametrize("point", STEPS)
def test_while_services_open(data_dir: Path, point: str) -> None:
    server = starting(data_dir, point)
    eventually((data_dir / "database.url").exists)
    if point != STEPS[0]:
        eventually((data_dir / "ingest" / ".lock").exists)
    assert left(server, signal.SIGTERM) == 0
    assert not (data_dir / "database.url").exists()
    assert not list(data_dir.rglob("postmaster.pid"))


def test_while_the_cluster_is_made(data_dir: Path) -> None:
    server = starting(data_dir)
    eventually(lambda: any(data_dir.glob("postgres/cluster.new-*/*")))
    assert left(server, signal.SIGINT) == 130
    assert not list(data_dir.rglob("postmaster.pid"))


def test_in_the_middle_of_a_fork(data_dir: Path) -> None:
    """Where the signal finds a start that is busy with PostgreSQL's programs."""
    command = [sys.executable, "-c", IN_A_FORK, "serve", "--port", "0", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert not list(data_dir.rglob("postmaster.pid"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_when_it_is_ready(data_dir: Path, number: signal.Signals, code: int) -> None:
    server = await_ready(starting(data_dir))
    assert left(server, number) == code
    assert not list(data_dir.rglob("postmaster.pid"))
