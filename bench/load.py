"""A load generator of our own on raw sockets: cheap, keep-alive, bounded in count."""

import asyncio
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

# As long as those of browsers and libraries: a short one takes longer to look for.
BOUNDARY = "----Boundary7MA4YWxkTrZu0gW9"
# Stands in a file's name and bytes; with `rename` each request has its own, as photographs have.
NAME = b"00000"


@dataclass(frozen=True)
class Result:
    seconds: float
    latencies: list[float]
    statuses: dict[int, int]

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


def multipart(content: bytes, name: str = "photo-00000.jpg") -> bytes:
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    )
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def request(path: str, body: bytes, token: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def post_many(
    port: int,
    message: bytes,
    *,
    count: int,
    clients: int,
    rate: float | None = None,
    rename: bool = False,
) -> Result:
    """Sends `count` requests from a process of its own, so that its CPU is not the server's."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(theirs, port, message, count, clients, rate, rename)
    )
    process.start()
    theirs.close()
    result: Result = ours.recv()
    process.join()
    return result


def _run(
    pipe: Connection,
    port: int,
    message: bytes,
    count: int,
    clients: int,
    rate: float | None,
    rename: bool,
) -> None:
    pipe.send(asyncio.run(_post(port, message, count, clients, rate, rename)))


async def _post(
    port: int, message: bytes, count: int, clients: int, rate: float | None, rename: bool
) -> Result:
    numbers = iter(range(count))
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    started = time.monotonic()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            if rate:
                await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            begun = time.monotonic()
            writer.write(message.replace(NAME, f"{number:05}".encode(), 2) if rename else message)
            status = await _answer(reader)
            latencies.append(time.monotonic() - begun)
            statuses[status] = statuses.get(status, 0) + 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return Result(time.monotonic() - started, latencies, statuses)


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next(
        (int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length")), 0
    )
    if length:
        await reader.readexactly(length)
    return int(lines[0].split()[1])
