"""Whole servers as processes: started, spoken to, killed, started again."""

import io
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from safelight.testing import waiting

TOKEN = "slt_" + "t" * 40
BOOKKEEPING = {".lock", ".node", ".home", ".safelight", "lost+found"}
READY = "Safelight is running at "
eventually = waiting.eventually  # whoever starts servers waits for them


@dataclass
class Server:
    """A `safelight serve` of our own. `url` is its address once it is ready."""

    process: subprocess.Popen[str]
    data_dir: Path
    url: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def ingest_dir(self) -> Path:
        return self.data_dir / "ingest"

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **options)

    def upload(self, content: bytes, name: str = "a.jpg", **options: Any) -> httpx.Response:
        with self.client() as client:
            return client.post("/api/upload", files={"file": (name, content)}, **options)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line.get("event") == event]

    def kill(self) -> int:
        self.process.kill()
        return self.process.wait(20)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)

    def files(self) -> list[str]:
        """What lies in the ingest directory, bookkeeping aside."""
        found = (path.name for path in self.ingest_dir.iterdir())
        return sorted(name for name in found if name not in BOOKKEEPING)


def launch(
    data_dir: Path,
    *options: str,
    environment: dict[str, str] | None = None,
    files: int | None = None,
) -> Server:
    """Starts it and returns at once; `await_ready` waits. `files`: how many it may have open."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
    settings = {
        "SAFELIGHT_BOOTSTRAP_TOKEN": TOKEN,
        "SAFELIGHT_LOG_FORMAT": "json",
        "SAFELIGHT_LOG_LEVEL": "debug",
        **(environment or {}),
    }
    process = subprocess.Popen(
        [
            *(("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh") if files else ()),
            sys.executable,
            "-m",
            "safelight",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(data_dir),
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**inherited, **settings},
    )
    return Server(process, data_dir)


def await_ready(server: Server, seconds: float = 40) -> Server:
    ready: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert server.process.stdout
        with server.process.stdout as output:
            for line in output:
                server.lines.append(line.rstrip("\n"))
                if READY in line:
                    ready.put(line.split(READY)[1].strip())
        ready.put(None)

    threading.Thread(target=read, daemon=True).start()
    url = ready.get(timeout=seconds)
    if url is None:
        server.process.wait(20)
        raise AssertionError("the server ended early:\n" + "\n".join(server.lines))
    server.url = url
    return server


@contextmanager
def running(data_dir: Path, *options: str, **environment: str) -> Iterator[Server]:
    server = launch(data_dir, *options, environment=environment)
    try:
        yield await_ready(server)
    finally:  # also of one that was not ready in time
        if server.process.poll() is None:
            server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def picture(kind: str = "JPEG", size: tuple[int, int] = (64, 48), colour: str = "orange") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()
