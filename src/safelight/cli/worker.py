"""`safelight worker`: one more process that runs jobs, here or on another machine."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated

import structlog
import typer

from safelight.app import create_worker_app
from safelight.cli.leaving import Leaving
from safelight.cli.serve import (
    DataDir,
    ToldServer,
    address_of,
    listening,
    prepare,
    settle_memory,
)
from safelight.http.door import behind_door
from safelight.http.frame import Registry
from safelight.infra.metrics import Metrics
from safelight.infra.postgres.server import join
from safelight.settings import Settings, load
from safelight.wiring import open_services


def worker(
    data_dir: DataDir = None,
    health_port: Annotated[
        int | None, typer.Option(help="Port for /healthz, /readyz and /metrics.")
    ] = None,
) -> None:
    """Run jobs beside a server: on its data directory, or on its external database."""
    leaving = Leaving()
    settings = load({"data_dir": data_dir, "worker_port": health_port})
    prepare(settings)
    with _listening(settings) as listener:
        url = (
            settings.database_url.get_secret_value()
            if settings.database_url
            else join(settings.data_dir)
        )
        leaving.run(_work(settings, url, listener, leaving))


async def _work(
    settings: Settings, url: str, listener: socket.socket | None, leaving: Leaving
) -> None:
    stop = asyncio.Event()
    async with (
        open_services(settings, url, worker=True, between=leaving.check_opening) as registry,
        _answering(registry, settings, listener),
    ):
        settle_memory()
        structlog.get_logger().info("working", url=address_of(listener) if listener else None)
        with leaving.told_to(lambda _: stop.set()):
            await stop.wait()


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket | None]:
    if settings.worker_port is None:
        yield None
        return
    taken = "Choose another with --health-port or SAFELIGHT_WORKER_PORT."
    with listening(settings.host, settings.worker_port, taken) as listener:
        yield listener


@asynccontextmanager
async def _answering(
    registry: Registry, settings: Settings, listener: socket.socket | None
) -> AsyncIterator[None]:
    """How it is, to whoever asks, as long as it works."""
    if listener is None:
        yield
        return
    config = behind_door(create_worker_app(registry), settings, registry.get(Metrics))
    server = ToldServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
