"""What a worker answers at a port of its own: how it is, what it counts, and nothing else."""

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import TOKEN, free_port
from library.processes import Workers
from safelight.accounts.first_start import first_start
from safelight.app import create_worker_app
from safelight.cli.serve import listening
from safelight.cli.worker import worker
from safelight.errors import ConfigurationError
from safelight.infra.activity import Units
from safelight.infra.injected import Ids
from safelight.settings import load
from safelight.testing.waiting import eventually, until
from safelight.wiring import open_services


@pytest.mark.parametrize("metrics_open", [False, True])
async def test_how_it_is_and_nothing_else(
    database_url: str, tmp_path: Path, metrics_open: bool
) -> None:
    values: dict[str, Any] = {"bootstrap_token": TOKEN, "metrics_open": metrics_open}
    settings = load({"data_dir": tmp_path, **values})
    async with open_services(settings, database_url, worker=True) as registry:
        await first_start(registry.get(Units), settings, registry.get(Ids))
        transport = httpx.ASGITransport(app=create_worker_app(registry))
        async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until(is_ready)
            assert (await client.get("/metrics")).status_code == (200 if metrics_open else 401)
            client.headers["authorization"] = f"Bearer {TOKEN}"
            assert "safelight_jobs_stranded 0.0" in (await client.get("/metrics")).text
            for path in ("/", "/api/images/x", "/login", "/api/openapi.json", "/static/x"):
                answer = await client.get(path)
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path


@pytest.mark.process
def test_a_worker_with_a_port(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    workers = Workers(database_url, tmp_path, {"SAFELIGHT_WORKER_PORT": str(port)})
    try:
        workers.start()
        url = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            try:
                return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(ready, 50)
        assert httpx.get(f"{url}/metrics").status_code == 401
    finally:
        workers.stop()
    assert "Traceback" not in workers.said()


def test_a_port_that_is_taken_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAFELIGHT_DATA_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match="--health-port or SAFELIGHT_WORKER_PORT"):
            worker(None, port)
        with (
            pytest.raises(ConfigurationError, match="Do that instead"),
            listening("127.0.0.1", port, "Do that instead."),
        ):
            pass
