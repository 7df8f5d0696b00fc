"""Runware over its HTTP API: an array of tasks in, `data` and `errors` (perhaps both) out.

Its tasks carry our ids, so one whose answer was lost can be asked about. It does not sign webhooks
(the token in their address is the proof), and work once begun cannot be called back.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from safelight.generations.lifecycle import MediaKind
from safelight.generations.providers.base import (
    NAME,
    Accepted,
    Finished,
    Order,
    Provider,
    ProviderAnswer,
    ProviderDeps,
    ProviderTrouble,
    Refused,
    Report,
    TaskUnknown,
    check_name,
)
from safelight.generations.providers.runware_replies import (
    QUESTION,
    entries_of,
    error_outcome,
    errors_of,
    is_not_found,
    media_of,
    reports_of,
)
from safelight.generations.providers.wire import Reply, Wire

_TASK_TYPES = {MediaKind.IMAGE: "imageInference", MediaKind.VIDEO: "videoInference"}
_DEFAULT_SIZES = {MediaKind.IMAGE: (1024, 1024), MediaKind.VIDEO: (1280, 720)}
_MODEL = re.compile(rf"{NAME}([:@/]{NAME})*")
_ASKING_SECONDS = 30.0
_SUBMITTING_SECONDS = 60.0  # a video's call does not wait for the result


class Runware(Provider):
    name = "runware"
    hint = "Any model by its AIR name, such as `runware:100@1`."
    model_names = re.compile(r"[^\s:@/]+:[^\s:@]+@[^\s@]+")
    hosts = ("*.runware.ai",)
    can_be_asked = True

    def __init__(self, url: str, wire: Wire) -> None:
        self._url = url
        self._wire = wire

    @classmethod
    def build(cls, deps: ProviderDeps) -> "Runware | None":
        key = deps.settings.runware_api_key
        if key is None:
            return None
        headers = {"authorization": f"Bearer {key.get_secret_value().strip()}"}
        return cls(deps.settings.runware_url, Wire("Runware", headers, deps.clock))

    def check(self, model: str, kind: MediaKind, wanted: Mapping[str, Any]) -> None:  # noqa: ARG002 - the vendor judges the rest
        check_name(model, _MODEL, "Runware names models source:id@version")

    async def submit(self, order: Order) -> ProviderAnswer:
        waits = order.kind is MediaKind.IMAGE
        seconds = order.seconds if waits else min(order.seconds, _SUBMITTING_SECONDS)
        reply = await self._wire.ask("POST", self._url, [task_of(order)], seconds=seconds)
        if isinstance(reply, ProviderTrouble):
            return reply
        outcome = answer_of(reply, order.task_id)
        if isinstance(outcome, TaskUnknown):
            return Accepted(order.task_id)  # acknowledged without a word about the task
        return outcome

    async def poll(self, order: Order) -> ProviderAnswer:
        question = [{"taskType": QUESTION, "taskUUID": order.task_id}]
        reply = await self._wire.ask("POST", self._url, question, seconds=_ASKING_SECONDS)
        if isinstance(reply, ProviderTrouble):
            return reply
        outcome = answer_of(reply, order.task_id, asked=True)
        if isinstance(outcome, Finished):
            return outcome
        unheard_of = any(is_not_found(error) for error in errors_of(reply.payload))
        return TaskUnknown() if unheard_of else outcome

    def reports(self, payload: Any) -> Sequence[Report]:
        return reports_of(payload)

    async def close(self) -> None:
        await self._wire.close()


def task_of(order: Order) -> dict[str, Any]:
    """One task, one result. What the caller sent goes along; what is ours to say comes last."""
    width, height = _DEFAULT_SIZES[order.kind]
    task = {"outputType": "URL", "includeCost": True, "width": width, "height": height}
    task |= order.passed_on
    if order.prompt is not None:
        task["positivePrompt"] = order.prompt
    if order.seed is not None:
        task["seed"] = order.seed
    task |= {
        "taskType": _TASK_TYPES[order.kind],
        "taskUUID": order.task_id,
        "model": order.model,
        "numberResults": 1,
        "deliveryMethod": "sync",
    }
    if order.kind is MediaKind.VIDEO:
        task |= {"deliveryMethod": "async", "webhookURL": order.webhook_url}
    return task


def answer_of(reply: Reply, task_id: str | None, *, asked: bool = False) -> ProviderAnswer:
    """What an answer, to a submission or when `asked`, says of one task. `data` outranks `errors`:
    they may be about others."""
    results = [entry for entry in entries_of(reply.payload, "data") if _about(entry, task_id)]
    for entry in results:
        if (media := media_of(entry)) is not None:
            return Finished(media, task_id)
    for error in errors_of(reply.payload):
        if _about(error, task_id):
            return error_outcome(error, reply, asked=asked)
    if (trouble := reply.trouble("Runware")) is not None:
        return trouble
    if not reply.fine:
        return Refused.because(f"Runware answered {reply.status}.")
    if reply.payload is None:
        return ProviderTrouble("Runware's answer is not JSON.", sent=True)
    return Accepted(task_id) if results else TaskUnknown()


def _about(entry: Mapping[str, Any], task_id: str | None) -> bool:
    """An error without an id is about whatever was asked."""
    return entry.get("taskUUID") in {None, task_id}
