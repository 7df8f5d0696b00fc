"""What clients do: uploads of every kind, deletes, reads, and sockets that hang up and come back.

Each operation is noted with when it began, when it was answered and how. Every upload has bytes of
its own, so that whatever is found later says whose it is.
"""

import asyncio
import hashlib
import json
import random
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Literal
from urllib.parse import quote

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from harness import TOKEN

ORGANIZATION = "default"
AUTHORIZATION = {"authorization": f"Bearer {TOKEN}"}
PATIENCE = 60.0
Answer = Literal["acknowledged", "refused", "unknown"]


@dataclass
class Operation:
    """One upload or delete. `ended` is when the answer came; unanswered, it may yet take effect."""

    kind: Literal["upload", "delete"]
    name: str
    server: int
    began: float
    mode: str = "replace"
    checksum: str = ""
    ended: float = float("inf")
    answer: Answer = "unknown"
    image: str = ""
    why: str = ""

    @property
    def acknowledged(self) -> bool:
        return self.answer == "acknowledged"


@dataclass
class Reader:
    """A socket from the feed's beginning. `seen` is every seq it was sent, and when."""

    seen: list[tuple[int, float]] = field(default_factory=list)
    hung_up: int = 0

    @property
    def position(self) -> int:
        return self.seen[-1][0] if self.seen else 0


def picture(number: int, padding: int) -> bytes:
    """A PNG that no other number makes: one pixel, and a text as long as told."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    text = b"Comment\0" + f"{number}:".encode() + b"x" * padding
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
            chunk(b"tEXt", text),
            chunk(b"IDAT", zlib.compress(b"\0\xff\x80\x10")),
            chunk(b"IEND", b""),
        ]
    )


class Load:
    """`urls` are the servers'. Each client keeps to one of them, as a browser does."""

    def __init__(self, urls: list[str], seed: int, clients: int = 6, pause: float = 0.05) -> None:
        self._urls = urls
        self._seed = seed
        self._clients = clients
        self._pause = pause
        self._numbers: Iterator[int] = count(1)
        self._over = asyncio.Event()
        self.operations: list[Operation] = []
        self.readers: list[Reader] = []
        self.reads = 0

    @property
    def acknowledged(self) -> int:
        return sum(one.acknowledged for one in self.operations)

    def has_acknowledged(self, many: int) -> bool:
        return self.acknowledged >= many

    async def run(self) -> None:
        """Until `end`; returns when every client has had its last answer or lost patience."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients):
                group.create_task(self._client(number))

    def end(self) -> None:
        self._over.set()

    async def _client(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/client/{number}")
        server = number % len(self._urls)
        timeout = httpx.Timeout(PATIENCE, connect=3)
        async with httpx.AsyncClient(
            base_url=self._urls[server], headers=AUTHORIZATION, timeout=timeout
        ) as client:
            while not self._over.is_set():
                answered = await self._once(client, server, draw)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause if answered else 0.3):
                        await self._over.wait()

    async def _once(self, client: httpx.AsyncClient, server: int, draw: random.Random) -> bool:
        what = draw.random()
        if what < 0.40:
            return await self._upload(client, server, draw, f"own-{next(self._numbers)}.png")
        if what < 0.66:
            return await self._upload(client, server, draw, f"hot-{draw.randrange(6)}.png")
        if what < 0.76:
            return await self._upload(client, server, draw, "free.png", "rename")
        if what < 0.81:
            return await self._upload(
                client, server, draw, f"once-{draw.randrange(40)}.png", "refuse"
            )
        if what < 0.91:  # half of the hot names only, so that the others show every lost overwrite
            return await self._delete(client, server, f"hot-{draw.randrange(3)}.png")
        return await self._read(client, draw)

    async def _upload(
        self, client: httpx.AsyncClient, server: int, draw: random.Random, name: str,
        mode: str = "replace",
    ) -> bool:  # fmt: skip
        content = picture(next(self._numbers), draw.choice([0, 2_000, 60_000]))
        checksum = hashlib.sha256(content).hexdigest()
        done = Operation("upload", name, server, time.monotonic(), mode, checksum)
        self.operations.append(done)
        return await self._send(client, done, content)

    async def _send(self, client: httpx.AsyncClient, done: Operation, content: bytes) -> bool:
        """Whether it was answered, and not by an error of the server."""
        try:
            answer = await client.post(
                "/api/upload",
                params={"onConflict": done.mode},
                files={"file": (done.name, content)},
            )
        except httpx.HTTPError as error:
            done.why = type(error).__name__
            return False
        done.why = answer.text[:200]
        if answer.status_code == 201:
            done.image, done.answer = answer.json()["imageId"], "acknowledged"
        elif answer.status_code == 409 or "Nothing was kept" in answer.text:
            done.answer = "refused"
        if done.answer != "unknown":
            done.ended = time.monotonic()
        return answer.status_code < 500

    async def _delete(self, client: httpx.AsyncClient, server: int, name: str) -> bool:
        done = Operation("delete", name, server, time.monotonic())
        self.operations.append(done)
        try:
            answer = await client.delete(f"/api/organizations/{ORGANIZATION}/uploads/{quote(name)}")
        except httpx.HTTPError as error:
            done.why = type(error).__name__
            return False
        done.why = answer.text[:200]
        if answer.status_code in {202, 404}:
            done.answer = "acknowledged" if answer.status_code == 202 else "refused"
            done.ended = time.monotonic()
        return answer.status_code < 500

    async def _read(self, client: httpx.AsyncClient, draw: random.Random) -> bool:
        path = f"/api/organizations/{ORGANIZATION}/uploads"
        if draw.random() < 0.5:
            path += f"/hot-{draw.randrange(6)}.png/content"
        with suppress(httpx.HTTPError):
            self.reads += (await client.get(path)).status_code < 500
        return True

    async def listen(self, number: int, urls: list[str] | None = None) -> None:
        """For ever, from whichever server answers; hangs up now and then and resumes."""
        draw = random.Random(f"{self._seed}/socket/{number}")
        reader = Reader()
        self.readers.append(reader)
        while True:
            url = draw.choice(urls or self._urls).replace("http", "ws", 1)
            with suppress(OSError, WebSocketException, TimeoutError):
                async with connect(
                    f"{url}/api/organizations/{ORGANIZATION}/live?after={reader.position}",
                    additional_headers=AUTHORIZATION, open_timeout=5, close_timeout=1,
                    ping_interval=5, ping_timeout=5,
                    max_queue=None,  # one that is full can keep it from closing
                ) as socket:  # fmt: skip
                    for _ in range(draw.choice([1, 20, 300])):
                        seq = int(json.loads(await socket.recv())["seq"])
                        reader.seen.append((seq, time.monotonic()))
            reader.hung_up += 1
            await asyncio.sleep(0.2)
