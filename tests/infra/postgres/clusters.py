"""Real clusters, and processes that run them, for tests that end both badly."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg

from safelight.infra.postgres.server import EmbeddedPostgres

ROOT = os.geteuid() == 0  # PostgreSQL then runs as another user
LIFE = Path(__file__).with_name("life.py")
Starter = Callable[..., EmbeddedPostgres]


class Life:
    """A process that runs the server."""

    def __init__(self, data_dir: Path, **options: Any) -> None:
        self.postmaster: int | None = None
        self.process = subprocess.Popen(
            [sys.executable, LIFE, json.dumps({"data_dir": str(data_dir), **options})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"ended with status {self.process.wait()}"
        heard = dict(json.loads(line))
        self.postmaster = heard.get("pid", self.postmaster)
        return heard

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def is_over(self) -> bool:
        return self.postmaster is None or gone(self.postmaster)

    def end(self) -> int:
        self.process.communicate("\n", timeout=30)
        return self.process.returncode


def copy(data_dir: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", data_dir, target], check=True)
    return target


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def value(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def kept(url: str) -> Any:
    """How often the row every test begins with is there."""
    return await value(url, "SELECT count(*) FROM kept WHERE n = 1")


def gone(pid: int) -> bool:
    return (
        not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def cluster_of(data_dir: Path) -> Path:
    return data_dir / "postgres" / "cluster"


Beginner = Callable[..., Life]
