"""Runware as its API behaves, on loopback: arrays in, `data` and `errors` out, one webhook a result.

What it does with a task is planned by the task's seed; it remembers every task it took.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from emulators.media import MP4, png, serve
from emulators.wire import Exchange, Loopback, loopback

KEY = "rw-secret-key"


@dataclass
class Plan:
    """How one task goes. `statuses` are answered first, one per call, before it is taken."""

    statuses: list[int] = field(default_factory=list)
    retry_after: str | None = None
    refuse: str | None = None  # an error code in the body, beside an empty `data`
    comes_to_nothing: list[str] = field(default_factory=list)  # codes: taken, failed, remembered so
    seconds: float = 0.0  # until the answer (image) or the webhook (video)
    lose_answer: bool = False  # taken, but the connection breaks before the answer
    media: list[str] = field(default_factory=lambda: ["fine"])  # per fetch, the last one stays
    inline: bool = False
    callbacks: int = 1  # webhooks per result, at the same moment
    early: bool = False  # the webhook comes before the call's own answer
    stubborn: bool = False  # calls again until somebody answers, as vendors do
    forgets: bool = False  # asked about, it knows nothing
    gate: asyncio.Event | None = None  # held until set


@dataclass
class Runware:
    server: Loopback = field(init=False)
    plans: dict[int | None, Plan] = field(default_factory=dict)
    default: Plan = field(default_factory=Plan)
    submitted: list[dict[str, Any]] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)  # codes of those that came to nothing
    turned_away: list[int] = field(default_factory=list)  # statuses for the next questions
    asked: list[str] = field(default_factory=list)
    told: list[int] = field(default_factory=list)  # statuses our webhooks were answered with
    other: str = ""
    picture: bytes = field(default_factory=png)
    videos: dict[int, bytes] = field(default_factory=dict)  # by seed, where it matters
    working: int = 0
    most: int = 0  # tasks at work at the same moment
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    def plan(self, task: dict[str, Any]) -> Plan:
        return self.plans.get(task.get("seed"), self.default)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "runware_url": f"{self.server.url}/v1",
            "runware_api_key": KEY,
            "outgoing_allow": (self.server.address,),
        }

    async def handle(self, exchange: Exchange) -> None:
        if exchange.path.startswith("/media/"):
            await self._media(exchange)
        elif exchange.headers.get("authorization") != f"Bearer {KEY}":
            error = {"code": "invalidApiKey", "message": "The key is not valid."}
            await exchange.answer(401, {"errors": [error]})
        else:
            [task] = exchange.json
            if task["taskType"] == "getResponse":
                await self._ask(exchange, task["taskUUID"])
            else:
                await self._take(exchange, task)

    async def _take(self, exchange: Exchange, task: dict[str, Any]) -> None:
        plan, uuid = self.plan(task), task["taskUUID"]
        self.submitted.append(task)
        if plan.statuses:
            hint = {"retry-after": plan.retry_after} if plan.retry_after else {}
            await exchange.answer(plan.statuses.pop(0), {"errors": []}, hint)
            return
        if plan.refuse:
            error = {"code": plan.refuse, "message": "Not this one.", "taskUUID": uuid}
            await exchange.answer(400, {"data": [], "errors": [error]})
            return
        self.tasks[uuid] = task
        if plan.comes_to_nothing:
            self.failed[uuid] = plan.comes_to_nothing.pop(0)
            await exchange.answer(200, {"errors": [self._error(uuid)]})
            return
        if task["deliveryMethod"] == "async":
            await self._take_video(exchange, task, plan)
            return
        await self._wait(plan, uuid)
        if plan.lose_answer:
            exchange.cut()
        else:
            # Another task's error beside our result must not count as ours.
            stray = {"code": "timeoutProvider", "message": "other", "taskUUID": "someone-else"}
            await exchange.answer(200, {"data": [self.result(uuid)], "errors": [stray]})

    async def _take_video(self, exchange: Exchange, task: dict[str, Any], plan: Plan) -> None:
        if plan.early:
            await self.call_back(task, plan.callbacks)
        else:
            self._soon(self._finish(task, plan))
        if plan.lose_answer:
            exchange.cut()
        else:
            ack = {"taskType": task["taskType"], "taskUUID": task["taskUUID"]}
            await exchange.answer(200, {"data": [ack]})

    async def _finish(self, task: dict[str, Any], plan: Plan) -> None:
        await self._wait(plan, task["taskUUID"])
        await self.call_back(task, plan.callbacks)

    async def call_back(
        self, task: dict[str, Any], times: int = 1, body: Any = None, url: str | None = None
    ) -> list[int]:
        payload = body or {"data": [self.result(task["taskUUID"])]}
        address = url or task["webhookURL"]

        async def call() -> int:
            while True:
                with suppress(httpx.HTTPError):
                    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
                        return (await client.post(address, json=payload)).status_code
                if not self.plan(task).stubborn:
                    return 0
                await asyncio.sleep(0.1)

        statuses = list(await asyncio.gather(*(call() for _ in range(times))))
        self.told += statuses
        return statuses

    async def _ask(self, exchange: Exchange, uuid: str) -> None:
        self.asked.append(uuid)
        if self.turned_away:
            error = {"code": "serviceUnavailable", "message": "Not now.", "taskUUID": uuid}
            await exchange.answer(self.turned_away.pop(0), {"errors": [error]})
            return
        if uuid in self.failed:
            await exchange.answer(200, {"errors": [self._error(uuid)]})
            return
        task = self.tasks.get(uuid)
        if task is None or self.plan(task).forgets:
            error = {"code": "taskNotFound", "message": "No such task.", "taskUUID": uuid}
            await exchange.answer(400, {"errors": [error]})
            return
        if uuid not in self.done:
            state = {"taskType": task["taskType"], "taskUUID": uuid, "status": "processing"}
            await exchange.answer(200, {"data": [state]})
            return
        await exchange.answer(200, {"data": [{**self.result(uuid), "status": "success"}]})

    def _error(self, uuid: str) -> dict[str, Any]:
        return {"code": self.failed[uuid], "message": "It did not work out.", "taskUUID": uuid}

    def result(self, uuid: str) -> dict[str, Any]:
        task = self.tasks[uuid]
        kind = "video" if task["taskType"] == "videoInference" else "image"
        facts = {
            "taskType": task["taskType"],
            "taskUUID": uuid,
            f"{kind}UUID": f"asset-{uuid}",
            "seed": task.get("seed", 77),
            "cost": 0.0013,
        }
        if self.plan(task).inline:
            import base64

            return {**facts, f"{kind}Base64Data": base64.b64encode(self.content(uuid)).decode()}
        return {**facts, f"{kind}URL": f"{self.server.url}/media/{uuid}"}

    def content(self, uuid: str) -> bytes:
        task = self.tasks[uuid]
        video = task["taskType"] == "videoInference"
        return self.videos.get(task.get("seed", -1), MP4) if video else self.picture

    async def _media(self, exchange: Exchange) -> None:
        uuid = exchange.path.removeprefix("/media/")
        ways = self.plan(self.tasks[uuid]).media
        how = ways.pop(0) if len(ways) > 1 else ways[0]
        await serve(exchange, how, self.content(uuid), self.other)

    async def _wait(self, plan: Plan, uuid: str) -> None:
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            await asyncio.sleep(plan.seconds)
            if plan.gate is not None:
                await plan.gate.wait()
        finally:
            self.working -= 1
        self.done.add(uuid)

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
async def runware() -> AsyncIterator[Runware]:
    emulator = Runware()
    async with loopback(emulator.handle) as server:
        emulator.server = server
        try:
            yield emulator
        finally:
            await emulator.stop()
