"""CPU per upload, split by adding one step at a time to the same request.

Each variant is a server process of its own on loopback; rounds are interleaved and the median kept,
because machines are noisy. The load generator's CPU is not counted.
"""

import multiprocessing
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.load import multipart, post_many, request
from bench.measure import Table, cpu_seconds, median, tree
from bench.pictures import two_megapixels
from safelight.accounts.first_start import first_start
from safelight.app import create_app
from safelight.http.frame import Frame, Registry
from safelight.http.short_road import ShortRoad
from safelight.infra import logs
from safelight.infra.activity import Units
from safelight.infra.injected import Ids, RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.infra.threads import Threads
from safelight.infra.turns import Turns
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.receive import FilePart, Incoming, Receiver, UploadLimits
from safelight.setting_kinds import ACCEPTED_TYPES
from safelight.settings import load
from safelight.wiring import open_services

TOKEN = "slt_" + "b" * 40
LIMITS = UploadLimits(2**31, 10**9, ACCEPTED_TYPES)
STEPS = ("drain", "frame", "parse", "hash and write", "fsync and rename", "whole upload")


class Unsynced(Incoming):
    """Everything but making it durable and visible."""

    def finish(self, extension: str) -> Path:
        return Path(self._hidden).with_suffix(f".{extension}")


async def drain(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send(
        {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"{}"})


def partial_app(step: str, directory: IngestDirectory) -> ASGIApp:
    """The frame, the short road and a route that stops after `step`."""
    api, ids, threads, turns = FastAPI(), RandomIds(), Threads(8, "bench"), Turns(8)

    @api.post("/api/upload", status_code=201)
    async def upload(http: Request) -> Response:
        content_type = http.headers["content-type"]
        if step == "frame":
            async for _ in http.stream():
                pass
        elif step == "parse":
            part = FilePart(content_type)
            async for chunk in http.stream():
                part.feed(chunk)
                part.take()
        else:
            kind = Incoming if step == "fsync and rename" else Unsynced
            incoming = kind(directory, ids.image(0))
            receiver = Receiver(incoming, LIMITS, threads, turns)
            await receiver.receive(content_type, http.stream(), None)
            await threads.run(incoming.discard)
        return Response(b"{}", 201)

    registry = Registry(load(), Metrics())
    registry.add(ids, as_type=Ids)
    return Frame(ShortRoad(api, "/api/upload", upload), registry, {"/api/upload": None})


@asynccontextmanager
async def app_for(step: str, directory: Path, database_url: str) -> AsyncIterator[ASGIApp]:
    if step == "drain":
        yield drain
    elif step != "whole upload":
        yield partial_app(step, IngestDirectory(directory, RandomIds()))
    else:
        settings = load(
            {
                "data_dir": directory,
                "ingest_dir": directory,
                "bootstrap_token": TOKEN,
                "max_upload_bytes": 2**31,
            }
        )
        async with open_services(settings, database_url) as registry:
            await first_start(registry.get(Units), settings, registry.get(Ids))
            yield create_app(registry)


def serve(pipe: Connection, step: str, directory: str, database_url: str) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with app_for(step, Path(directory), database_url) as app:
                config = uvicorn.Config(
                    app, http="httptools", lifespan="off", log_config=None, access_log=False
                )
                pipe.send(listener.getsockname()[1])
                await uvicorn.Server(config).serve(sockets=[listener])

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # logs are written, and cost what they cost, but nobody reads them here
    logs.configure("json", "info")
    import uvloop

    uvloop.run(main())


class Variant:
    def __init__(self, step: str, directory: str, database_url: str) -> None:
        self.step = step
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs, step, directory, database_url)
        )
        self._process.start()
        theirs.close()  # so that a server that cannot start is noticed
        self.port: int = ours.recv()
        self.cpu: list[float] = []
        self.database: list[float] = []
        self.rate: list[float] = []

    def round(self, message: bytes, count: int, postgres_pid: int) -> None:
        server = [psutil.Process(self._process.pid)]
        postgres = tree(postgres_pid)
        before, before_pg = cpu_seconds(server), cpu_seconds(postgres)
        result = post_many(self.port, message, count=count, clients=16)
        assert result.statuses == {201: count}, result.statuses
        self.cpu.append((cpu_seconds(server) - before) / count * 1000)
        after_pg = cpu_seconds(tree(postgres_pid))
        self.database.append(max(0.0, after_pg - before_pg) / count * 1000)
        self.rate.append(result.per_second)

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


@dataclass(frozen=True)
class Step:
    """Of a server that stops after it, CPU milliseconds per request."""

    name: str
    server: float
    database: float
    rate: float


@cache
def steps(*, rounds: int = 3, count: int = 400) -> list[Step]:
    """Once in a run of the bench: the pipeline's part shows them too."""
    message = request("/api/upload", multipart(two_megapixels()), TOKEN)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        Path(directory).chmod(0o711)
        postgres = EmbeddedPostgres(Path(directory) / "data")
        url = postgres.start()
        variants = [Variant(step, f"{directory}/data/{i}", url) for i, step in enumerate(STEPS)]
        try:
            for _ in range(rounds):
                for variant in variants:
                    variant.round(message, count, postgres.pid or 0)
        finally:
            for variant in variants:
                variant.stop()
            postgres.stop()
    return [
        Step(each.step, median(each.cpu), median(each.database), median(each.rate))
        for each in variants
    ]


def run() -> Table:
    table = Table(
        "Upload: CPU per request, one step added at a time (ms)",
        "step", "server", "PostgreSQL", "this step adds", "requests/s, 16 clients",
    )  # fmt: skip
    before = 0.0
    for step in steps():
        shown = f"{step.database:.2f}" if step.name == STEPS[-1] else ""
        more = f"{step.server - before:+.2f}"
        table.add(step.name, f"{step.server:.2f}", shown, more, f"{step.rate:.0f}")
        before = step.server
    return table


if __name__ == "__main__":
    print(run().markdown())
