"""Forgets what nobody needs any more: drafts of puts that died, old tombstones and told events."""

import asyncio
from pathlib import Path

from safelight.infra.db import Database
from safelight.infra.failpoints import hit, reach
from safelight.infra.injected import Clock
from safelight.objects import repo

DAY_MS = 86_400_000
_DRAFT_MS = DAY_MS
_REMEMBERED_MS = 30 * DAY_MS  # longer than any event is on its way


class Tidy:
    def __init__(self, db: Database, clock: Clock, drafts: Path) -> None:
        self._db = db
        self._clock = clock
        self._drafts = drafts

    async def run(self) -> None:
        now = self._clock.now_ms()
        await asyncio.to_thread(_discard, self._drafts, now - _DRAFT_MS)
        await reach("objects.forget_deleted")
        await repo.forget_deleted(self._db, now - _REMEMBERED_MS)


def _discard(drafts: Path, before_ms: int) -> None:
    for path in drafts.iterdir():
        try:
            old = path.lstat().st_ctime_ns // 1_000_000 < before_ms
        except FileNotFoundError:
            continue  # its put has just ended
        if old:
            hit("objects.discard_old_draft")
            path.unlink(missing_ok=True)
