"""What local commands stand on: the database, beside a running server or without one. Access to it
is their authority."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from safelight.accounts import repo as accounts
from safelight.errors import ConfigurationError
from safelight.infra import failpoints, logs
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds, SystemClock
from safelight.infra.migrate import check_version
from safelight.infra.pooler import survey
from safelight.infra.postgres.server import attached
from safelight.settings import Settings, load

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_CONNECTIONS = 2


@dataclass(frozen=True)
class Local:
    """What a command works with."""

    settings: Settings
    db: Database
    bus: Bus
    units: Units
    clock: SystemClock
    ids: RandomIds


def run_local(data_dir: Path | None, act: Callable[[Local], Awaitable[T]]) -> T:
    async def run(settings: Settings, url: str) -> T:
        async with at_hand(settings, url) as local:
            return await act(local)

    settings = prepare_local(data_dir, "warning")
    with database_url(settings) as url:
        return asyncio.run(run(settings, url))


def prepare_local(data_dir: Path | None, log_level: str) -> Settings:
    logs.configure("auto", log_level)
    settings = load({"data_dir": data_dir})
    failpoints.arm_all(settings.failpoints)
    return settings


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    if not settings.data_dir.is_dir():
        raise ConfigurationError(
            f"There is no data directory {settings.data_dir}. Name it with --data-dir, or start "
            "`safelight serve` there first."
        )
    with attached(settings.data_dir) as url:
        yield url


@asynccontextmanager
async def at_hand(settings: Settings, url: str) -> AsyncIterator[Local]:
    """Refused where the database is empty or of another version: only servers change tables."""
    db = await Database.open(await survey(url, settings.database_direct), pool_size=_CONNECTIONS)
    try:
        if not await accounts.is_set_up(db):
            raise ConfigurationError(
                "This database is still empty. Start `safelight serve` once, then try again."
            )
        await check_version(db)
        bus, clock = Bus(db, "command line"), SystemClock()
        try:
            yield Local(settings, db, bus, Units(db, bus, clock), clock, RandomIds())
        finally:
            await bus.stop()
    finally:
        await db.close()
