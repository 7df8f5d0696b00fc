"""Bursts of uploads through kill -9 of the server and of its database: nothing acknowledged is lost."""

import asyncio
import hashlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import asyncpg
import httpx
import pytest

from harness import TOKEN, Server, await_ready, eventually, launch, picture
from safelight.infra.postgres.server import join

UPLOADS, CLIENTS = 200, 8
pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


class Storm:
    """Clients that go on through every interruption and remember what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/upload"
        self.acknowledged: dict[str, str] = {}
        self.sent = 0
        self._lock = threading.Lock()

    def has_sent(self, goal: int) -> bool:
        return self.sent >= goal

    def send(self, number: int) -> None:
        content = picture("PNG", (8 + number, 8), "navy")
        name = f"{number}.png"
        for _ in range(400):
            try:
                answer = httpx.post(
                    self.url,
                    files={"file": (name, content)},
                    headers={"authorization": f"Bearer {TOKEN}"},
                    timeout=20,
                )
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code == 201:
                checksum = hashlib.sha256(content).hexdigest()
                assert answer.json()["checksum"] == checksum
                with self._lock:
                    self.acknowledged[answer.json()["imageId"]] = checksum
                    self.sent += 1
                return
            assert answer.status_code in {500, 503}, answer.text
            time.sleep(0.05)
        raise AssertionError(f"{name} was never accepted")


def start(data_dir: Path, port: int) -> Server:
    return await_ready(launch(data_dir, "--port", str(port)))


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def run_storm(data_dir: Path, interrupt: Callable[[Server], Server], times: int) -> Server:
    port = free_port()
    server = start(data_dir, port)
    storm = Storm(port)
    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(storm.send, number) for number in range(UPLOADS)]
        for interruption in range(times):
            goal = (interruption + 1) * UPLOADS // (times + 2)
            eventually(partial(storm.has_sent, goal), 60)
            time.sleep(random.random() / 5)
            server = interrupt(server)
        for future in futures:
            future.result()
    assert len(storm.acknowledged) == UPLOADS
    check(server, data_dir, storm.acknowledged)
    # An upload whose outcome could not be learnt keeps its file until a start decides, when there has
    # been time for its record.
    server.stop()
    for path in server.ingest_dir.glob("img_*"):
        os.utime(path, (time.time() - 61, time.time() - 61))
    server = start(data_dir, port)
    records = eventually(lambda: settled(data_dir))
    assert {name.split(".")[0] for name in server.files()} <= records.keys()
    return server


def check(server: Server, data_dir: Path, acknowledged: dict[str, str]) -> None:
    """Every record is STORED, and every acknowledged one is there with its bytes."""
    rows = eventually(lambda: settled(data_dir), 60)
    assert acknowledged.items() <= rows.items()
    with server.client() as client:
        listed: set[str] = set()
        cursor = None
        while True:
            params = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
            page = client.get("/api/organizations/default/uploads", params=params).json()
            listed |= {item["name"] for item in page["items"]}
            cursor = page["nextCursor"]
            if cursor is None:
                break
        assert listed == {f"{number}.png" for number in range(UPLOADS)}
        for number in range(0, UPLOADS, 7):
            content = client.get(f"/api/organizations/default/uploads/{number}.png/content").content
            expected = picture("PNG", (8 + number, 8), "navy")
            assert content == expected


def settled(data_dir: Path) -> dict[str, str] | None:
    async def look() -> dict[str, str] | None:
        connection = await asyncpg.connect(join(data_dir))
        try:
            if await connection.fetchval(
                "SELECT EXISTS (SELECT FROM images WHERE status <> 'STORED') "
                "OR EXISTS (SELECT FROM jobs WHERE kind IN ('ingest.offload', 'objects.deliver'))"
            ):
                return None
            rows = await connection.fetch("SELECT id, checksum FROM images")
        finally:
            await connection.close()
        return {row["id"]: row["checksum"] for row in rows}

    return asyncio.run(look())


def test_the_server_is_killed(data_dir: Path) -> None:
    def interrupt(server: Server) -> Server:
        server.kill()
        port = int(server.url.rsplit(":", 1)[1])
        return start(data_dir, port)

    run_storm(data_dir, interrupt, times=2).stop()


def test_the_database_is_killed(data_dir: Path) -> None:
    def interrupt(server: Server) -> Server:
        pid = int(next(data_dir.rglob("postmaster.pid")).read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        return server

    run_storm(data_dir, interrupt, times=2).stop()
