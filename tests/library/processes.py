"""Workers in processes of their own, beside a server in the test's."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from harness import picture
from inprocess import application
from library.api import Api
from nursery import Child, bear
from safelight.infra import failpoints, logs
from safelight.settings import load
from safelight.wiring import open_services


@dataclass
class Workers:
    """`safelight worker` on one database and data directory; what they said is kept for failures."""

    database_url: str
    data_dir: Path
    settings: dict[str, str] = field(default_factory=dict)
    started: "list[subprocess.Popen[bytes] | Child]" = field(default_factory=list)

    def start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "safelight", "worker"],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_inherited() | self._environment,
            )
        self.started.append(process)
        return process

    def fork(self, points: str) -> Child:
        """The same without the command, where many are started to die soon."""
        child = bear("library.processes:work", self._environment, str(self._log), points=points)
        self.started.append(child)
        return child

    @property
    def _environment(self) -> dict[str, str]:
        ours = {
            "SAFELIGHT_DATABASE_URL": self.database_url,
            "SAFELIGHT_DATA_DIR": str(self.data_dir),
        }
        return ours | self.settings

    @property
    def _log(self) -> Path:
        return self.data_dir / f"worker-{len(self.started):02}.log"

    async def all_ready(self) -> bool:
        return self.said().count("working") >= len(self.started)

    def stop(self) -> None:
        """All at once; each gives back what it holds."""
        for process in self.started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        for process in self.started:
            process.wait(30)

    def said(self) -> str:
        logs = sorted(self.data_dir.glob("worker-*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text()}" for log in logs)


def _inherited() -> dict[str, str]:
    """Without settings that somebody has in his own shell."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SAFELIGHT_")}


async def work(environment: dict[str, str], log: str) -> None:
    """In the child."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    inherited = _inherited()
    os.environ.clear()
    os.environ |= inherited | environment
    settings = load({})
    logs.configure(settings.log_format, settings.log_level)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_services(settings, environment["SAFELIGHT_DATABASE_URL"], worker=True):
        structlog.get_logger().info("working")
        await stop.wait()


async def upload_and_work(environment: dict[str, str], name: str, colour: str, point: str) -> None:
    """In the child: a server that does everything itself. What an earlier one has left is done before
    it is sent something, and dies of that."""
    values = {key: environment[key] for key in ("classifier", "workers_ai_url")}
    directory = Path(environment["data_dir"])
    async with (
        application(environment["database_url"], directory, worker=True, **values) as app,
        app.client() as client,
    ):
        await Api(app, client).idle()
        failpoints.arm(point, "exit")
        content = picture("JPEG", colour=colour)
        await client.post("/api/upload", files={"file": (name, content)})
        await asyncio.Event().wait()
