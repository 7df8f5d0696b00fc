"""The built-in provider: pictures and short clips drawn here by rules, offline and for nothing.

It is no diffusion model and says so in each artifact's metadata. The same model, prompt, seed and
size give the same bytes. Images are drawn at once; clips are announced by a job of our own, which
says what a vendor's webhook would, and so is whatever it is told to be slow with: waiting is a row.
It remembers nothing: whatever it is asked to do again comes out the same.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
    SILENT,
    Commission,
    commission_of,
    conduct_of,
)
from safelight.sandbox.children import Kit
from safelight.sandbox.limits import SandboxLimits

_AT_ONCE = 2
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
        self._sandbox = deps.sandbox
        self._kits = {
            MediaKind.IMAGE: _kit("image", deps.settings.generation_image_timeout_seconds),
            MediaKind.VIDEO: _kit("video", deps.settings.generation_video_timeout_seconds),
        }

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
        if order.kind is MediaKind.VIDEO or conduct.delay or failure == SILENT:
            if failure != SILENT:
                await self._deliver(order, failure or "succeeded", conduct.delay)
            return Accepted(order.task_id, calls_back=True)
        return _ERRORS.get(failure or "", Finished(Media(DRAWN), order.task_id))

    def reports(self, payload: Any) -> Sequence[Report]:
        """As webhooks.py sends them."""
        if not isinstance(payload, Mapping) or not isinstance(payload.get("taskId"), str):
            return []
        outcome = _ERRORS.get(str(payload.get("status")), Finished(Media(DRAWN)))
        return [Report(payload["taskId"], outcome)]

    async def draw(self, order: Order) -> Drawn:
        """In a child: what draws is also what decodes, and has no place in a server's process."""
        commission = self._commission(order)
        words = json.dumps(asdict(commission)).encode()
        drawn = await self._sandbox.run("draw", words, kit=self._kits[order.kind])
        return Drawn(drawn.data, facts_of(commission))

    def _commission(self, order: Order) -> Commission:
        return commission_of(order.model, order.kind, order.input, order.seed, order.artifact_id)


def _kit(kind: str, longest: float) -> Kit:
    """One for each kind: a clip takes minutes, and nobody's picture waits behind it."""
    limits = SandboxLimits(cpu_seconds=longest, wall_seconds=longest)
    module = "safelight.generations.studio.render"
    return Kit.of(module, at_once=_AT_ONCE, limits=limits, kind=kind)


def facts_of(commission: Commission) -> dict[str, Any]:
    return {
        "cost": 0,
        "seed": commission.seed,
        "width": commission.width,
        "height": commission.height,
        "software": "Safelight studio",
        "method": "procedural drawing; no model was trained or run",
    }
