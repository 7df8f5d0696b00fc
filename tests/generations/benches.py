"""Each provider on a bench of its own, with the means to make its vendor behave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from emulators.replicate import TOKEN, Replicate, replicate
from emulators.replicate import Plan as Prediction
from emulators.runware import KEY, Plan, Runware, runware
from generations.newcomer import Newcomer
from safelight.generations.lifecycle import MediaKind
from safelight.generations.providers.base import Order, Provider, ProviderDeps
from safelight.generations.providers.registry import PROVIDERS
from safelight.infra.injected import SystemClock
from safelight.settings import load
from sandbox.shared import shared_sandbox

WEBHOOK = "http://127.0.0.1:9/webhooks/x?generation_id=g&token=t&task=a"


class Bench(Protocol):
    provider: Provider
    secret: str
    model: str

    def behave(self, how: str) -> dict[str, Any]:
        """Makes the next task go this way; returns what the input must hold for it."""

    def told(self, task_id: str | None) -> Any:
        """The body of the webhook for a task that was taken."""


class RunwareBench:
    secret, model = KEY, "runware:100@1"

    def __init__(self, provider: Provider, emulator: Runware) -> None:
        self.provider, self.emulator = provider, emulator

    def behave(self, how: str) -> dict[str, Any]:
        self.emulator.default = {
            "fine": Plan(callbacks=0),
            "refused": Plan(refuse="invalidModel"),
            "busy": Plan(statuses=[429], retry_after="3"),
            "lost": Plan(lose_answer=True, callbacks=0),
        }[how]
        return {}

    def told(self, task_id: str | None) -> Any:
        return {"data": [self.emulator.result(task_id or "")]}


class ReplicateBench:
    secret, model = TOKEN, "acme/film"

    def __init__(self, provider: Provider, emulator: Replicate) -> None:
        self.provider, self.emulator = provider, emulator

    def behave(self, how: str) -> dict[str, Any]:
        self.emulator.plan = {
            "fine": Prediction(never=True),
            "refused": Prediction(statuses=[422]),
            "busy": Prediction(statuses=[429]),
            "lost": Prediction(lose_answer=True, never=True),
        }[how]
        return {}

    def told(self, task_id: str | None) -> Any:
        return self.emulator.prediction(task_id or "")


class StudioBench:
    secret, model = "nothing to leak", "studio/horizon"

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def behave(self, how: str) -> dict[str, Any]:
        small = {"width": 64, "height": 64, "duration": 0.2}
        return small | ({} if how == "fine" else {"fail": how})

    def told(self, task_id: str | None) -> Any:
        return {"taskId": task_id, "status": "succeeded"}


class NewcomerBench:
    secret, model = "nothing to leak", "new/picture"

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def behave(self, how: str) -> dict[str, Any]:
        return {} if how == "fine" else {"fail": how}

    def told(self, task_id: str | None) -> Any:
        return {"done": task_id}


@asynccontextmanager
async def bench(name: str) -> AsyncIterator[Bench]:
    if name == "runware":
        async with runware() as emulator, built(name, **emulator.settings) as provider:
            yield RunwareBench(provider, emulator)
    elif name == "replicate":
        async with replicate() as predictor, built(name, **predictor.settings) as provider:
            yield ReplicateBench(provider, predictor)
    elif name == "newcomer":
        async with built(name) as provider:
            yield NewcomerBench(provider)
    else:
        async with built(name) as provider:
            yield StudioBench(provider)


@asynccontextmanager
async def built(name: str, **settings: Any) -> AsyncIterator[Provider]:
    async def deliver(order: Order, outcome: str, delay: float) -> None:
        return None

    everybody: list[type[Provider]] = [*PROVIDERS, Newcomer]
    known = {one.name: one for one in everybody}
    provider = known[name].build(
        ProviderDeps(load(settings), SystemClock(), deliver, shared_sandbox())
    )
    assert provider is not None
    yield provider
    await provider.close()


def an_order(bench: Bench, kind: MediaKind = MediaKind.IMAGE, **wanted: Any) -> Order:
    return Order(
        generation_id="g",
        artifact_id="a",
        position=0,
        task_id=None if bench.provider.chooses_ids else "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        kind=kind,
        model=bench.model,
        input={"prompt": "a kite", **wanted},
        webhook_url=WEBHOOK,
        seconds=10.0,
    )
