"""Real processes that are started again whenever they end, and the database they share."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from faults.clock import WrongClock
from faults.relay import Relay
from safelight.testing.waiting import until


@dataclass
class Program:
    """A `safelight serve` or `safelight worker`."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    url: str = ""  # of a server
    relay: Relay | None = None
    clock: WrongClock | None = None
    starts: int = 0
    back_at: float = 0  # not started again before that time
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", "safelight", *self.command]

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.poll() is None else None

    @property
    def node(self) -> str:
        return (Path(self.command[-1]) / "ingest" / ".node").read_text().strip()

    def start(self) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
        self.starts += 1
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **self.environment},
            )

    def signal(self, number: signal.Signals) -> None:
        if self.pid:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ready(self) -> bool:
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(timeout=2) as client:
                return (await client.get(f"{self.url}/readyz")).status_code == 200
        return False


@dataclass
class House:
    store: str
    root: Path
    programs: list[Program] = field(default_factory=list)
    resting: bool = False  # nothing is started again
    _connection: Any = None

    @property
    def database_url(self) -> str:
        raise NotImplementedError

    @property
    def watched(self) -> Iterable[Program]:
        """Whoever is started again."""
        return self.programs

    @property
    def servers(self) -> list[Program]:
        return [program for program in self.programs if program.url]

    @property
    def workers(self) -> list[Program]:
        return [program for program in self.programs if not program.url]

    async def ask(self, query: str, *arguments: Any) -> list[Any]:
        """An answer of the database; raises when it is away."""
        try:
            if self._connection is None:
                self._connection = await asyncpg.connect(self.database_url, timeout=5)
            return list(await self._connection.fetch(query, *arguments, timeout=30))
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def until_ready(self, seconds: float = 90) -> None:
        for server in self.servers:
            await until(server.ready, seconds, every=0.2)

    async def relieve(self) -> None:
        """Ends whoever may keep the others from being ready: what the storm itself must not need."""
        await self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        for program in self.programs:
            program.kill()

    async def supervise(self) -> None:
        """As systemd would."""
        while True:
            for program in self.watched:
                gone = program.pid is None and time.monotonic() >= program.back_at
                if gone and not self.resting:
                    program.start()
                    await asyncio.sleep(0.3)  # one that cannot start does not eat the machine
            await asyncio.sleep(0.1)
