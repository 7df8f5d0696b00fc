"""`safelight serve`: one process, or one of many, that answers HTTP."""

import asyncio
import contextlib
import ctypes
import gc
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import structlog
import typer
import uvicorn

from safelight.accounts.first_start import first_start
from safelight.app import create_app
from safelight.classification.classifiers import check as check_classifier
from safelight.cli.leaving import Leaving
from safelight.errors import ConfigurationError
from safelight.http.door import behind_door, open_more_files
from safelight.infra import failpoints, logs
from safelight.infra.activity import Units
from safelight.infra.data_directory import DataDirectory, write_private
from safelight.infra.injected import Ids
from safelight.infra.metrics import Metrics
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.settings import Settings, load
from safelight.wiring import open_services

_LAST_WORDS_SECONDS = 10.0
_LEFT_OVER = 10_000
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT_BYTES = 8 * 1024 * 1024
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where everything is kept.")]


def serve(
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only answer HTTP.")] = False,
) -> None:
    """Run Safelight: the server, its worker and, unless you bring one, its database."""
    leaving = Leaving()
    settings = load({"data_dir": data_dir, "host": host, "port": port})
    if no_worker and settings.ingest == "direct":
        raise ConfigurationError(
            "SAFELIGHT_INGEST=direct answers an upload when the worker here has stored it, and "
            "--no-worker leaves that out. Leave out --no-worker, or use SAFELIGHT_INGEST=disk."
        )
    prepare(settings)
    taken = "Choose another with --port or SAFELIGHT_PORT."
    with (
        listening(settings.host, settings.port, taken) as listener,
        database(settings, leaving) as (url, postgres),
    ):
        leaving.run(_serve(settings, url, postgres, listener, leaving, worker=not no_worker))


def prepare(settings: Settings) -> None:
    """What every long-running command does first."""
    check_classifier(settings)
    logs.configure(settings.log_format, settings.log_level)
    failpoints.arm_all(settings.failpoints)
    open_more_files()
    keep_freed_memory()


def keep_freed_memory() -> None:
    """A little of it: pieces of bodies come and go with every upload, and what is given back to the
    system has to be asked for again, page by page. Not every C library can be told."""
    with contextlib.suppress(AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(_TRIM_THRESHOLD, _KEPT_BYTES)
        tune(_MMAP_THRESHOLD, _KEPT_BYTES // 2)


def settle_memory() -> None:
    """What is there by now stays until the end: the collector need not look through it again and
    again. It comes when as many objects are left over as a handful of requests makes, not one."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_LEFT_OVER, 20, 20)


@contextlib.contextmanager
def database(settings: Settings, leaving: Leaving) -> Iterator[tuple[str, EmbeddedPostgres | None]]:
    """The external database's address, or the embedded one, running as long as we do."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), None
        return
    postgres = EmbeddedPostgres(settings.data_dir, between=leaving.check)
    try:
        yield postgres.start(), postgres
    finally:
        postgres.stop()


async def _serve(
    settings: Settings,
    url: str,
    postgres: EmbeddedPostgres | None,
    listener: socket.socket,
    leaving: Leaving,
    *,
    worker: bool,
) -> None:
    watching = asyncio.create_task(postgres.watch()) if postgres else None
    try:
        address = settings.public_url or address_of(listener)
        if postgres:  # else the directory may be several servers'
            write_private(DataDirectory(settings.data_dir.resolve()).server, address)
        async with open_services(
            settings,
            url,
            worker=worker,
            address=lambda: address,
            between=leaving.check_opening,
        ) as registry:
            link = await first_start(registry.get(Units), settings, registry.get(Ids))
            app = create_app(registry)
            config = behind_door(app, settings, registry.get(Metrics))
            server = _Server(config, address, link)
            settle_memory()
            with leaving.told_to(lambda number: server.handle_exit(number, None)):
                await server.serve(sockets=[listener])
    finally:
        if watching:
            watching.cancel()


class ToldServer(uvicorn.Server):
    """It does not listen for signals itself: those are caught from the first moment of the process
    on, and whoever runs it is told."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Server(ToldServer):
    """Tells where it is once it answers, and lets requests that it cuts short have a last word."""

    def __init__(self, config: uvicorn.Config, address: str, link: str | None) -> None:
        super().__init__(config)
        self._address = address
        self._link = link

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        structlog.get_logger().info("ready", url=self._address)
        print(f"\n  Safelight is running at {self._address}", flush=True)
        if self._link:
            print(f"  Sign in once with this link:  {self._address}{self._link}\n", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Past the limit requests are cancelled; an upload whose record is being written then ends
        it and is answered, before what it stands on is closed."""
        await super().shutdown(sockets)
        if cancelled := list(self.server_state.tasks):
            await asyncio.wait(cancelled, timeout=_LAST_WORDS_SECONDS)


def address_of(listener: socket.socket) -> str:
    """Where this machine can call us; listening everywhere includes its own."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextlib.contextmanager
def listening(host: str, port: int, otherwise: str) -> Iterator[socket.socket]:
    """`otherwise` says what to do if that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {host}:{port} ({error.strerror}). {otherwise}"
        ) from error
    with listener:
        yield listener
