"""A server that is stopped, and uploads that take longer than it waits: each is answered with what
became of it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from harness import TOKEN, picture
from safelight.accounts.first_start import first_start
from safelight.app import create_app
from safelight.cli.serve import _Server
from safelight.http.frame import Registry
from safelight.infra import failpoints
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.ingest.accept import Ingest
from safelight.settings import load
from safelight.testing.waiting import until
from safelight.wiring import open_services

BEARER = {"authorization": f"Bearer {TOKEN}"}
BEGINNING = (
    b"POST /api/upload HTTP/1.1\r\nhost: here\r\nauthorization: Bearer %s\r\n"
    b"content-type: multipart/form-data; boundary=b\r\ncontent-length: 9000000\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="slow.png"\r\n\r\n'
) % TOKEN.encode()


@asynccontextmanager
async def served(database_url: str, data_dir: Path) -> AsyncIterator[tuple[_Server, Registry, str]]:
    settings = load({"data_dir": data_dir, "bootstrap_token": TOKEN})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_services(settings, database_url, address=lambda: url) as registry:
            await first_start(registry.get(Units), settings, registry.get(Ids))
            config = uvicorn.Config(
                create_app(registry),
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=1,
            )
            server = _Server(config, url, None)
            serving = asyncio.create_task(server._serve([listener]))
            await until(lambda: server.started)
            try:
                yield server, registry, url
            finally:
                server.should_exit = True
                await serving


async def cut_short(server: _Server) -> None:
    """Asked to stop, and past its limit."""
    server.should_exit = True
    await until(lambda: all(task.cancelling() for task in server.server_state.tasks))


@pytest.mark.parametrize("point", ["ingest.record_uploads", "ingest.recorded"])
async def test_an_upload_whose_record_is_being_written_is_answered(
    database_url: str, tmp_path: Path, point: str
) -> None:
    async with (
        served(database_url, tmp_path) as (server, registry, url),
        httpx.AsyncClient(base_url=url, headers=BEARER) as client,
    ):
        armed = failpoints.arm(point, "hold")
        files = {"file": ("a.png", picture("PNG"))}
        sent = asyncio.create_task(client.post("/api/upload", files=files))
        await armed.passed()
        await cut_short(server)
        failpoints.disarm()
        answer = await sent
        assert answer.status_code == 201, answer.text
        rows = await registry.get(Database).fetch("SELECT id FROM images")
        assert [row["id"] for row in rows] == [answer.json()["imageId"]]
        directory = registry.get(Ingest).directory
        assert [file.image_id for file in directory.files()] == [answer.json()["imageId"]]


async def test_an_upload_that_still_comes_is_told_that_nothing_was_kept(
    database_url: str, tmp_path: Path
) -> None:
    async with served(database_url, tmp_path) as (server, registry, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        armed = failpoints.observe("ingest.open")
        writer.write(BEGINNING + picture("PNG") + bytes(3_000_000))
        await armed.passed()
        await cut_short(server)
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 500"), answer
        body = json.loads(answer.partition("\r\n\r\n")[2])
        assert body["code"] == "UNKNOWN_ERROR"
        assert "Nothing was kept" in body["error"]
        assert await registry.get(Database).fetchval("SELECT count(*) FROM images") == 0
        assert list(registry.get(Ingest).directory.files()) == []
