"""Replicate as its API behaves, on loopback: predictions it names itself, and signed webhooks."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from emulators.media import MP4, png, serve
from emulators.wire import Exchange, Loopback, loopback
from safelight.generations.providers.signatures import sign

TOKEN = "r8_secret"
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


@dataclass
class Plan:
    statuses: list[int] = field(default_factory=list)
    fails: str | None = None  # the prediction's error
    seconds: float = 0.0
    lose_answer: bool = False
    still_working: int = 0  # polls answered "processing"
    callbacks: int = 1
    early: bool = False
    never: bool = False
    media: str = "fine"


@dataclass
class Replicate:
    server: Loopback = field(init=False)
    plan: Plan = field(default_factory=Plan)
    created: list[dict[str, Any]] = field(default_factory=list)
    predictions: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    polled: list[str] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    secret_status: int = 200
    asked_for_secret: int = 0
    _numbers: Any = field(default_factory=lambda: count(1))
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "replicate_url": f"{self.server.url}/v1",
            "replicate_api_token": TOKEN,
            "outgoing_allow": (self.server.address,),
        }

    async def handle(self, exchange: Exchange) -> None:
        path = exchange.path
        if path.startswith("/media/"):
            await serve(exchange, self.plan.media, self._content(path.removeprefix("/media/")))
        elif exchange.headers.get("authorization") != f"Bearer {TOKEN}":
            await exchange.answer(401, {"detail": "Invalid token."})
        elif path == "/v1/webhooks/default/secret":
            self.asked_for_secret += 1
            shown = {"key": SECRET} if self.secret_status == 200 else {"detail": "none"}
            await exchange.answer(self.secret_status, shown)
        elif exchange.method == "POST" and path.endswith("/cancel"):
            self.cancelled.append(path.split("/")[-2])
            await exchange.answer(200, {"id": path.split("/")[-2], "status": "canceled"})
        elif exchange.method == "POST":
            await self._create(exchange)
        else:
            await self._show(exchange, path.rsplit("/", 1)[1])

    async def _create(self, exchange: Exchange) -> None:
        plan, body = self.plan, exchange.json
        self.created.append(body)
        if plan.statuses:
            await exchange.answer(plan.statuses.pop(0), {"detail": "resets in ~1s"})
            return
        name = f"pred{next(self._numbers)}"
        video = "prefer" not in exchange.headers
        self.predictions[name] = {**body, "id": name, "video": video, "path": exchange.path}
        if plan.early:
            await self.call_back(name, plan.callbacks)
        elif video and not plan.never:
            self._soon(self._finish(name))
        if not video or plan.never:
            await asyncio.sleep(plan.seconds)
        if plan.lose_answer:
            exchange.cut()
        elif video or plan.still_working:
            await exchange.answer(201, {"id": name, "status": "starting", "output": None})
        else:
            await exchange.answer(201, self.prediction(name))

    async def _show(self, exchange: Exchange, name: str) -> None:
        self.polled.append(name)
        if name not in self.predictions:
            await exchange.answer(404, {"detail": "not found"})
        elif self.plan.still_working > 0:
            self.plan.still_working -= 1
            await exchange.answer(200, {"id": name, "status": "processing"})
        else:
            await exchange.answer(200, self.prediction(name))

    def prediction(self, name: str) -> dict[str, Any]:
        if self.plan.fails:
            return {"id": name, "status": "failed", "error": self.plan.fails, "output": None}
        output = [f"{self.server.url}/media/{name}"]
        metrics = {"predict_time": 1.5}
        return {"id": name, "status": "succeeded", "output": output, "metrics": metrics}

    async def _finish(self, name: str) -> None:
        await asyncio.sleep(self.plan.seconds)
        await self.call_back(name, self.plan.callbacks)

    async def call_back(
        self, name: str, times: int = 1, *, secret: str = SECRET, age: float = 0
    ) -> list[int]:
        body = json.dumps(self.prediction(name)).encode()
        sent = str(int(time.time() - age))
        headers = {
            "content-type": "application/json",
            "webhook-id": f"msg_{name}",
            "webhook-timestamp": sent,
            "webhook-signature": f"v1,bm90IHRoaXM= {sign(secret, f'msg_{name}', sent, body)}",
        }
        url = self.predictions[name]["webhook"]

        async def call() -> int:
            async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
                return (await client.post(url, content=body, headers=headers)).status_code

        statuses = list(await asyncio.gather(*(call() for _ in range(times))))
        self.told += statuses
        return statuses

    def _content(self, name: str) -> bytes:
        return MP4 if self.predictions[name]["video"] else png("orange")

    def _soon(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def stop(self) -> None:
        for task in list(self._later):
            task.cancel()
            with suppress(asyncio.CancelledError, httpx.HTTPError):
                await task


@asynccontextmanager
async def replicate() -> AsyncIterator[Replicate]:
    emulator = Replicate()
    async with loopback(emulator.handle) as server:
        emulator.server = server
        try:
            yield emulator
        finally:
            await emulator.stop()
