"""A whole `safelight serve` to measure: started on an empty directory, spoken to, stopped."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.measure import cpu_seconds, is_postgres, tree

TOKEN = "slt_" + "b" * 40
_FEED = "/api/organizations/default/activity"
_READY = re.compile(r"running at (http://\S+)")


@dataclass
class Measured:
    pid: int
    url: str
    data_dir: Path
    seconds_to_start: float
    beside: dict[int, str] = field(default_factory=dict)  # processes that are measured with it

    def roots(self) -> dict[int, str]:
        return {self.pid: "", **self.beside}

    def position(self) -> int:
        """The newest line of the feed: somebody who asks for what comes after the last possible
        one is told where it ends."""
        with self.client() as client:
            told = client.get(_FEED, params={"after": 2**62}).json()["items"]
        return int(told[0]["seq"]) if told else 0

    def done_since(self, position: int) -> tuple[int, int]:
        """By the feed, which is what clients see, whatever jobs there are behind it."""
        query, most, found = {"types": "classification_updated"}, 200, 0
        with self.client() as client:
            while True:
                asked = {**query, "limit": str(most), "after": str(position)}
                items = client.get(_FEED, params=asked).json()["items"]
                found += len(items)
                position = items[-1]["seq"] if items else position
                if len(items) < most:
                    return found, position

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def client(self, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)

    def processes(self) -> tuple[list[psutil.Process], list[psutil.Process]]:
        """Ours, and PostgreSQL's."""
        everything = tree(self.pid)
        ours = [process for process in everything if not is_postgres(process)]
        return ours, [process for process in everything if process not in ours]

    def cpu(self) -> tuple[float, float]:
        """Seconds so far; those of ended backends are kept by their parent."""
        ours, postgres = self.processes()
        return cpu_seconds(ours), cpu_seconds(postgres) + _buried(postgres)


def _buried(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        times = process.cpu_times()
        total += times.children_user + times.children_system
    return total


def _directory() -> Path:
    """Gone at the end of it all: a file system that has just removed thousands of files takes its
    time for each new one, and the next server would be charged for it."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="bench-"))
    directory.chmod(0o711)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def serving(
    *options: str, program: str = "safelight", files: Path | None = None, **settings: str
) -> Iterator[Measured]:
    """On an empty directory; on `files`, which may hold something and stays."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
    environment = {**inherited, "SAFELIGHT_BOOTSTRAP_TOKEN": TOKEN, **settings}
    data_dir = files or _directory() / "data"
    command = [sys.executable, "-m", program, "serve", "--port", "0"]
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, "--data-dir", str(data_dir), *options],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout
    for line in process.stdout:
        if found := _READY.search(line):
            break
    else:
        raise RuntimeError("the server did not start")
    try:
        yield Measured(process.pid, found[1], data_dir, time.monotonic() - started)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@contextmanager
def working(data_dir: Path, program: str = "safelight", **settings: str) -> Iterator[int]:
    """One more process that runs jobs. It says in its log when it does."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
    environment = {**inherited, "SAFELIGHT_LOG_FORMAT": "json", **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", program, "worker", "--data-dir", str(data_dir)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stderr
    ready = any('"working"' in line for line in process.stderr)
    reading = threading.Thread(target=process.stderr.read, daemon=True)  # or its pipe runs full
    reading.start()
    try:
        assert ready, "the worker did not start"
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)
        reading.join()
        process.stderr.close()
