"""What it costs to be there: an idle server, a thousand sockets, a gigabyte passing through."""

import asyncio
import json
import time
from collections.abc import Iterator

import psutil
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Table, median, percentile, pss_bytes
from bench.pictures import two_megapixels
from bench.server import TOKEN, Measured, serving

SOCKETS = 1000
_HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def run(*, idle_seconds: float = 15, sockets: int = SOCKETS) -> list[Table]:
    table = Table("Standing costs", "what", "value", "budget")
    with serving() as server:
        _warm(server)
        ours, postgres = _idle(server, idle_seconds)
        table.add("idle server, CPU", f"{ours + postgres:.1f} % of a core", "≤ 2 %")
        everything = [process for part in server.processes() for process in part]
        size = pss_bytes(everything) / 2**20
        table.add("idle server, classifier loaded, PSS", f"{size:.0f} MiB", "≤ 350 MiB")
        memory, waits = asyncio.run(_crowd(server, sockets))
        table.add(f"{sockets} sockets, RSS each", f"{memory / 1024:.0f} KiB", "")
        table.add(
            f"{sockets} sockets, 201 → `upload_ingested` on each, p50 / p99",
            f"{median(waits) * 1000:.0f} / {percentile(waits, 0.99) * 1000:.0f} ms",
            "",
        )
    with serving("--no-worker", SAFELIGHT_MAX_UPLOAD_BYTES=str(2**31)) as server:
        growth = _gigabyte(server) / 2**20
        table.add("RSS growth while 1 GiB streams in", f"{round(growth)} MiB", "≤ 32 MiB")
    return [table]


def _warm(server: Measured) -> None:
    with server.client() as client:
        client.post("/api/upload", files={"file": ("warm.jpg", two_megapixels())})
        path = "/api/organizations/default/uploads/warm.jpg"
        while client.get(path).json().get("classificationStatus") != "done":
            time.sleep(0.1)
    time.sleep(2)


def _idle(server: Measured, seconds: float) -> tuple[float, float]:
    before = server.cpu()
    time.sleep(seconds)
    after = server.cpu()
    return (after[0] - before[0]) / seconds * 100, (after[1] - before[1]) / seconds * 100


def _gigabyte(server: Measured) -> int:
    process = psutil.Process(server.pid)

    def body(megabytes: int) -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.jpg"\r\n\r\n'
        yield two_megapixels()
        block = bytes(1024 * 1024)
        for _ in range(megabytes):
            yield block
        yield b"\r\n--b--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=b"}
    with server.client() as client:
        client.post("/api/upload", content=body(16), headers=headers)
        before = process.memory_info().rss
        answer = client.post("/api/upload?name=huge.jpg", content=body(1023), headers=headers)
        grown = process.memory_info().rss - before
        assert answer.status_code == 201, answer.text
    return grown


async def _crowd(server: Measured, count: int) -> tuple[float, list[float]]:
    process = psutil.Process(server.pid)
    url = server.url.replace("http", "ws", 1) + "/api/organizations/default/live"
    before = process.memory_info().rss
    sockets: list[ClientConnection] = []
    for start in range(0, count, 50):
        some = min(50, count - start)
        sockets += await asyncio.gather(
            *(connect(url, additional_headers=_HEADERS, compression=None) for _ in range(some))
        )
    memory = (process.memory_info().rss - before) / count
    waits: list[float] = []
    for number in range(5):
        waits += await _tell(server, sockets, f"crowd-{number}.jpg")
    await asyncio.gather(*(socket.close() for socket in sockets))
    return memory, waits


async def _tell(server: Measured, sockets: list[ClientConnection], name: str) -> list[float]:
    def upload() -> None:
        with server.client() as client:
            client.post("/api/upload", files={"file": (name, two_megapixels())})

    async def hear(socket: ClientConnection) -> float:
        while True:
            message = json.loads(await socket.recv())
            if message["type"] == "upload_ingested" and message["name"] == name:
                return time.monotonic()

    heard = [asyncio.create_task(hear(socket)) for socket in sockets]
    await asyncio.to_thread(upload)
    answered = time.monotonic()
    return [max(0.0, await moment - answered) for moment in heard]


if __name__ == "__main__":
    for table in run():
        print(table.markdown())
