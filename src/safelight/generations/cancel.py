"""Calling a generation off: what is not finished fails as cancelled, what is finished stays."""

from collections.abc import Mapping

from safelight.generations.decide import Change, called_off
from safelight.generations.lifecycle import Generation
from safelight.generations.owner import Owner
from safelight.infra.failpoints import reach


class Cancel:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def cancel(self, generation_id: str, actor: Mapping[str, str]) -> bool:
        """False: it was over before."""

        def call_off(generation: Generation, now: int) -> Change:
            return called_off(generation, actor, now)

        await reach("generations.cancel")
        change = await self._owner.change(generation_id, call_off)
        return change is not None and bool(change.entries)
