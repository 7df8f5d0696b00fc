"""The built-in provider: pictures and short clips drawn here by rules, offline and for nothing.

It is no diffusion model and says so in each artifact's metadata. The same model, prompt, seed and
size give the same bytes. Images are drawn at once; clips are announced by a webhook from a job of
our own, through the same route that vendors call. It can be told to be slow or to fail, and it
remembers nothing: whatever it is asked to do again comes out the same.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from safelight.errors import SafelightError
from safelight.generations.lifecycle import Media, MediaKind, TaskErrorCode
from safelight.generations.providers.base import (
    DRAWN,
    Accepted,
    Drawn,
    Finished,
    Order,
    Provider,
    ProviderAnswer,
    ProviderDeps,
    ProviderTrouble,
    Refused,
    Report,
)
from safelight.generations.studio.catalogue import (
    Commission,
    commission_of,
    conduct_of,
)

_THREADS = 2
_ERRORS = {
    "refused": Refused.because("The studio was told to refuse this task."),
    "error": Refused.because(
        "The studio was told to fail this task.", TaskErrorCode.PROVIDER_ERROR
    ),
}


class Studio(Provider):
    name = "studio"
    hint = "The models listed here: drawn by rules on this server, without any vendor."
    model_names = re.compile(r"studio/.*", re.DOTALL)

    def __init__(self, deps: ProviderDeps) -> None:
        self._deliver = deps.deliver
        self._delay = deps.settings.studio_delay_seconds
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="studio")

    @classmethod
    def build(cls, deps: ProviderDeps) -> "Studio":
        return cls(deps)

    def check(self, model: str, kind: MediaKind, wanted: Mapping[str, Any]) -> None:
        commission_of(model, kind, wanted, None, "")
        conduct_of(wanted, self._delay)

    async def submit(self, order: Order) -> ProviderAnswer:
        try:
            self._commission(order)
            conduct = conduct_of(order.input, self._delay)
        except SafelightError as error:
            return Refused.because(error.message)
        failure = conduct.failure_of(order.position)
        if failure == "busy":
            return ProviderTrouble("The studio was told to be busy.", 1.0, busy=True)
        if order.kind is MediaKind.VIDEO:
            await self._deliver(order, failure or "succeeded", conduct.delay)
            return Accepted(order.task_id)
        if failure == "silent":
            await asyncio.sleep(order.seconds)
            return ProviderTrouble("The studio was told to be silent.", sent=True)
        await asyncio.sleep(conduct.delay)
        return _ERRORS.get(failure or "", Finished(Media(DRAWN), order.task_id))

    def reports(self, payload: Any) -> Sequence[Report]:
        """As webhooks.py sends them."""
        if not isinstance(payload, Mapping) or not isinstance(payload.get("taskId"), str):
            return []
        outcome = _ERRORS.get(str(payload.get("status")), Finished(Media(DRAWN)))
        return [Report(payload["taskId"], outcome)]

    async def draw(self, order: Order) -> Drawn:
        from safelight.generations.studio.render import render

        commission = self._commission(order)
        loop = asyncio.get_running_loop()
        content = await loop.run_in_executor(self._threads, render, commission)
        return Drawn(content, facts_of(commission))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _commission(self, order: Order) -> Commission:
        return commission_of(order.model, order.kind, order.input, order.seed, order.artifact_id)


def facts_of(commission: Commission) -> dict[str, Any]:
    return {
        "cost": 0,
        "seed": commission.seed,
        "width": commission.width,
        "height": commission.height,
        "software": "Safelight studio",
        "method": "procedural drawing; no model was trained or run",
    }
