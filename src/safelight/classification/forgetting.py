"""Runs that are of no use any more: of images that were replaced or deleted, a month after they
ended.

Their story is history's. Goes by the steady time, since none of them comes back.
"""

from safelight.classification import repo
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.infra.steady import SteadyTime

_KEPT_MS = 30 * 86_400_000
_AT_A_TIME = 5000


class Forgetting:
    def __init__(self, db: Database, clock: Clock, at_a_time: int = _AT_A_TIME) -> None:
        self._db = db
        self._steady = SteadyTime(db, clock)
        self._at_a_time = at_a_time

    async def run(self) -> None:
        """Each piece is a transaction: a death has forgotten less."""
        before = await self._steady.now_ms() - _KEPT_MS
        place: list[str] | None = ["", "", "", "0"]
        while place:
            place = await repo.forget_runs(self._db, place, before, self._at_a_time)
