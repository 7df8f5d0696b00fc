"""Clients as they should be: what was not answered they look for, and send again; and two that never
pause, so that it shows when each server is there again."""

import asyncio
import hashlib
import random
import time
from contextlib import suppress
from urllib.parse import quote

import httpx

from storm.load import AUTHORIZATION, ORGANIZATION, PATIENCE, Load, Operation, picture

_BEFORE_AGAIN = 1.0
_PULSE, _UNANSWERED = 0.5, 40


class PatientLoad(Load):
    def __init__(self, urls: list[str], seed: int) -> None:
        super().__init__(urls, seed, clients=4, pause=0.3)
        self.sent_again = 0
        self.had_arrived = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            for server in range(len(self._urls)):
                group.create_task(self._pulse(server))

    async def _send(self, client: httpx.AsyncClient, done: Operation, content: bytes) -> bool:
        """Until it is answered. Each time other bytes, so that what is found later says which of
        them it is."""
        while not await super()._send(client, done, content):
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEFORE_AGAIN):
                    await self._over.wait()
            if self._over.is_set() or await self._arrived(client, done):
                return False
            content = picture(next(self._numbers), 0)
            checksum = hashlib.sha256(content).hexdigest()
            done = Operation(
                "upload", done.name, done.server, time.monotonic(), done.mode, checksum
            )
            self.operations.append(done)
            self.sent_again += 1
        return True

    async def _arrived(self, client: httpx.AsyncClient, done: Operation) -> bool:
        path = f"/api/organizations/{ORGANIZATION}/uploads/{quote(done.name)}"
        with suppress(httpx.HTTPError):
            answer = await client.get(path)
            if answer.is_success and answer.json()["checksum"] == done.checksum:
                self.had_arrived += 1
                return True
        return False

    async def _pulse(self, server: int) -> None:
        """A small upload twice a second, whatever became of those before it."""
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(
                base_url=self._urls[server], headers=AUTHORIZATION, limits=limits,
                timeout=httpx.Timeout(PATIENCE, connect=3),
            ) as client,
            asyncio.TaskGroup() as group,
        ):  # fmt: skip
            waiting: set[asyncio.Task[bool]] = set()
            while not self._over.is_set():
                if len(waiting) < _UNANSWERED:
                    beat = group.create_task(self._beat(client, server))
                    waiting.add(beat)
                    beat.add_done_callback(waiting.discard)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PULSE):
                        await self._over.wait()

    async def _beat(self, client: httpx.AsyncClient, server: int) -> bool:
        content = picture(next(self._numbers), 0)
        checksum, name = hashlib.sha256(content).hexdigest(), f"pulse-{server}.png"
        done = Operation("upload", name, server, time.monotonic(), checksum=checksum)
        self.operations.append(done)
        return await super()._send(client, done, content)

    def first_answer(self, server: int, sent: float, since: float) -> float | None:
        """When it first acknowledged something after `since` that was sent after `sent`."""
        ends = [
            one.ended
            for one in self.operations
            if one.kind == "upload" and one.acknowledged and one.server == server
            and one.began > sent and one.ended >= since
        ]  # fmt: skip
        return min(ends, default=None)


def drawn(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}")
