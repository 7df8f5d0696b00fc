"""A provider that nobody has heard of: the one file of it. The one line is in its tests."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from emulators.media import png
from safelight.generations.lifecycle import Media, MediaKind
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


class Newcomer(Provider):
    name = "newcomer"
    hint = "Any model named `new/…`."
    model_names = re.compile(r"new/.+")
    kinds = frozenset(MediaKind)

    @classmethod
    def build(cls, _: ProviderDeps) -> "Newcomer":
        return cls()

    def check(self, model: str, kind: MediaKind, wanted: Mapping[str, Any]) -> None:
        """Makes everything."""

    async def submit(self, order: Order) -> ProviderAnswer:
        how = order.input.get("fail")
        if how == "refused":
            return Refused.because("The newcomer does not like it.")
        if how == "busy":
            return ProviderTrouble("The newcomer is busy.", 1.0, busy=True)
        if order.kind is MediaKind.VIDEO:
            return Accepted(order.task_id)
        return Finished(Media(DRAWN), order.task_id)

    def reports(self, payload: Any) -> Sequence[Report]:
        done = payload.get("done") if isinstance(payload, Mapping) else None
        return [Report(done, Finished(Media(DRAWN)))] if isinstance(done, str) else []

    async def draw(self, _: Order) -> Drawn:
        return Drawn(png(), {"cost": 2})
