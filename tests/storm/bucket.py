"""A bucket as the world has them: an S3 server behind a proxy that is slow, loses answers, fails for a
while, or carries a PUT out long after its sender gave up; and that may tell of what happens in it."""

import asyncio
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, unquote

import httpx

from emulators.wire import Exchange, loopback
from harness import free_port
from objects.stores import CREDENTIALS
from safelight.testing.waiting import until

NAME = "storm"
EVENTS_TOKEN = "e" * 40
Mood = Literal["well", "failing", "hanging", "late"]
_SLOW, _LOSSY = 0.01, 0.02
_ERROR = b"<Error><Code>InternalError</Code><Message>Try again.</Message></Error>"


class StormyBucket:
    def __init__(self, server: str, draw: random.Random, listeners: list[str]) -> None:
        self._client = httpx.AsyncClient(base_url=server, timeout=30)
        self._draw = draw
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._listeners = listeners  # who is told; nobody, if the bucket does not tell
        self._sequence = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.mood: Mood = "well"
        self.calm = False  # also slow and lossy no more
        self.url = ""

    async def made(self) -> bool:
        with suppress(httpx.HTTPError):
            return (await self._client.put(f"/{NAME}")).is_success
        return False

    @property
    def untold(self) -> int:
        return len(self._tasks)

    async def handle(self, exchange: Exchange) -> None:
        draw = self._draw
        if not self.calm:
            await asyncio.sleep(draw.expovariate(1 / _SLOW))
        while self.mood == "hanging":
            await asyncio.sleep(0.1)
        if self.mood == "failing":
            await exchange.answer(draw.choice([500, 503]), _ERROR)
        elif self.mood == "late" and exchange.method == "PUT" and draw.random() < 0.5:
            self._later(self._apply(exchange, draw.uniform(0.5, 5)))
            exchange.cut()
        elif not self.calm and draw.random() < _LOSSY:
            if draw.random() < 0.5:
                await self._apply(exchange)
            exchange.cut()
        else:
            answer = await self._apply(exchange)
            headers = {k: v for k, v in answer.headers.items() if k not in {"connection", "date"}}
            await exchange.begin(answer.status_code, headers)
            await exchange.send(answer.content)

    async def _apply(self, exchange: Exchange, after: float = 0) -> httpx.Response:
        await asyncio.sleep(after)
        created, deletes = exchange.method == "PUT", exchange.method == "POST"  # of several at once
        found = re.search(rb"<Key>(.*?)</Key>", exchange.body) if deletes else None
        key = found[1].decode() if found else unquote(exchange.path).removeprefix(f"/{NAME}/")
        async with self._locks[key]:
            answer = await self._client.request(
                exchange.method, exchange.target, headers=exchange.headers, content=exchange.body
            )
            if self._listeners and (created or deletes) and answer.is_success:
                self._tell(created, key, answer)
        return answer

    def _tell(self, created: bool, key: str, answer: httpx.Response) -> None:
        self._sequence += 1
        thing: dict[str, Any] = {"key": quote(key), "sequencer": f"{self._sequence:016X}"}
        if created:
            thing |= {"eTag": answer.headers["etag"].strip('"'), "size": 1}
        record = {
            "eventVersion": "2.5",
            "eventSource": "aws:s3",
            "eventTime": datetime.now(UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "eventName": "ObjectCreated:Put" if created else "ObjectRemoved:Delete",
            "s3": {"bucket": {"name": NAME}, "object": thing},
        }
        for _ in range(1 if self._draw.random() < 0.7 else 2):
            self._later(self._notify(record, self._draw.choice([0, 0, 0.3, 2, 5])))

    async def _notify(self, record: dict[str, Any], after: float) -> None:
        """At least once: until somebody says that it was kept."""
        await asyncio.sleep(0 if self.calm else after)
        headers = {"authorization": f"Bearer {EVENTS_TOKEN}"}
        while True:
            url = f"{self._draw.choice(self._listeners)}/api/events/objects"
            with suppress(httpx.HTTPError):
                sent = await self._client.post(url, json={"Records": [record]}, headers=headers)
                if sent.is_success:
                    return
            await asyncio.sleep(0.5)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._client.aclose()


@asynccontextmanager
async def stormy_bucket(
    draw: random.Random, listeners: list[str], *, telling: bool
) -> AsyncIterator[StormyBucket]:
    port = free_port()
    with _s3_server(port):
        bucket = StormyBucket(f"http://127.0.0.1:{port}", draw, listeners if telling else [])
        await until(bucket.made, 30, every=0.2)
        async with loopback(bucket.handle) as proxy:
            told = "&events=bucket" if telling else ""
            bucket.url = f"s3://{NAME}?endpoint={proxy.url}&{CREDENTIALS}{told}"
            yield bucket
        await bucket.close()


@contextmanager
def _s3_server(port: int) -> Iterator[None]:
    """In a process of its own: this one has enough to do."""
    main = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    quiet = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", main], stdout=quiet, stderr=quiet) as server:
        try:
            yield
        finally:
            server.kill()
