"""What has had its time: values past their end, the old end of the feed, tombstones nothing can be
late for any more. Once an hour, whichever process is free."""

from safelight.infra import activity, kv
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import HOUR, Done, Job, JobKind, Nothing, Schedule, Verdict
from safelight.library import repo as library

_DAY_MS = 86_400_000
FEED_DAYS = 30
TOMBSTONE_DAYS = 30  # longer than any sender's queue keeps an event

UPKEEP = JobKind("admin.upkeep", payload=Nothing, limit=1)
SCHEDULES = (Schedule(UPKEEP, HOUR),)


class Upkeep:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def run(self) -> None:
        now = self._clock.now_ms()
        await reach("admin.sweep_values")
        while await kv.sweep(self._db, now=now):
            pass
        await reach("admin.cut_feed")
        await activity.cut_feed(self._db, now - FEED_DAYS * _DAY_MS)
        await reach("admin.sweep_tombstones")
        await library.purge_tombstones(self._db, now - TOMBSTONE_DAYS * _DAY_MS)

    def handler(self) -> Handler[Nothing]:
        async def handle(_: Job[Nothing]) -> Verdict:
            await self.run()
            return Done()

        return Handler(UPKEEP, handle)
