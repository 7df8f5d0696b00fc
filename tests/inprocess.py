"""The whole application on a real port inside the test's own event loop, for tests that reach in."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from described import Checked
from harness import TOKEN
from safelight.accounts.first_start import first_start
from safelight.app import create_app
from safelight.http.door import behind_door
from safelight.http.frame import Registry
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.infra.metrics import Metrics
from safelight.settings import load
from safelight.testing.waiting import until
from safelight.wiring import open_services


@dataclass
class Application:
    registry: Registry
    url: str

    @property
    def db(self) -> Database:
        return self.registry.get(Database)

    def client(self, token: str | None = TOKEN) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30)


@asynccontextmanager
async def application(
    database_url: str, data_dir: Path, *, worker: bool = False, **values: Any
) -> AsyncIterator[Application]:
    given = {"data_dir": data_dir, "database_url": database_url, "bootstrap_token": TOKEN}
    settings = load({**given, **values})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # As the server's own loop does. Without it every answer after a connection's first waits for
        # 40 ms: asyncio sets this on sockets alone that were told their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_services(
            settings, database_url, worker=worker, address=lambda: url
        ) as registry:
            await first_start(registry.get(Units), settings, registry.get(Ids))
            app = Checked(create_app(registry))
            config = behind_door(app, settings, registry.get(Metrics))
            server = uvicorn.Server(config)
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # older releases
            serving = asyncio.create_task(server._serve([listener]))
            await until(lambda: server.started)
            try:
                yield Application(registry, url)
            finally:
                server.should_exit = True
                await serving
            assert app.problems == [], "\n".join(app.problems)
