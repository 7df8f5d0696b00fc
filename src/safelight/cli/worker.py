"""`safelight worker`: one more process that runs jobs, here or on another machine."""

import asyncio
import signal

import structlog
import uvloop

from safelight.cli.serve import DataDir, prepare
from safelight.infra.postgres.server import join
from safelight.settings import Settings, load
from safelight.wiring import open_services


def worker(data_dir: DataDir = None) -> None:
    """Run jobs beside a server: on its data directory, or on its external database."""
    settings = load({"data_dir": data_dir})
    prepare(settings)
    url = (
        settings.database_url.get_secret_value()
        if settings.database_url
        else join(settings.data_dir)
    )
    uvloop.run(_work(settings, url))


async def _work(settings: Settings, url: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_services(settings, url, worker=True):
        structlog.get_logger().info("working")
        await stop.wait()
