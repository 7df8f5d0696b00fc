"""`safelight worker`: one more process that runs jobs, here or on another machine."""

import asyncio

import structlog

from safelight.cli.leaving import Leaving
from safelight.cli.serve import DataDir, prepare, settle_memory
from safelight.infra.postgres.server import join
from safelight.settings import Settings, load
from safelight.wiring import open_services


def worker(data_dir: DataDir = None) -> None:
    """Run jobs beside a server: on its data directory, or on its external database."""
    leaving = Leaving()
    settings = load({"data_dir": data_dir})
    prepare(settings)
    url = (
        settings.database_url.get_secret_value()
        if settings.database_url
        else join(settings.data_dir)
    )
    leaving.run(_work(settings, url, leaving))


async def _work(settings: Settings, url: str, leaving: Leaving) -> None:
    stop = asyncio.Event()
    async with open_services(settings, url, worker=True, between=leaving.check_opening):
        settle_memory()
        structlog.get_logger().info("working")
        with leaving.told_to(lambda _: stop.set()):
            await stop.wait()
