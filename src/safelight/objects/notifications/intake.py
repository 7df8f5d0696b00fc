"""Takes a store's notifications in: what can be processed gets a job, what cannot a dead letter."""

from collections import Counter
from dataclasses import dataclass

import structlog

from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, JobKind, Verdict
from safelight.infra.queue.queue import Queue
from safelight.objects.jobs import DELIVER
from safelight.objects.notifications import repo
from safelight.objects.notifications.normalise import normalise
from safelight.objects.notifications.notice import Notice


@dataclass(frozen=True, slots=True)
class RejectedNotice:
    """The payload of `objects.rejected`."""

    noticeId: int  # noqa: N815 - payloads are JSON that people read


REJECTED = JobKind("objects.rejected", payload=RejectedNotice)


@dataclass(frozen=True, slots=True)
class Taken:
    accepted: int
    ignored: int
    rejected: int


class Intake:
    def __init__(self, db: Database, queue: Queue, clock: Clock, bucket: str | None = None) -> None:
        self._db = db
        self._queue = queue
        self._clock = clock
        self._bucket = bucket  # ours, when there is one: a neighbour's events are not for us

    async def take(self, body: object) -> Taken:
        """All of one body in one transaction: a sender that hears nothing sends it again, whole."""
        found = normalise(body)
        organizations = {notice.organization for notice in found.events}
        known = await repo.known_organizations(self._db, sorted(organizations))
        notices = [n for n in found.events if n.organization in known and self._is_ours(n)]
        strangers = len(found.events) - len(notices)
        now = self._clock.now_ms()
        async with self._db.transaction() as connection:
            await reach("objects.receive")
            await repo.receive(connection, notices, now)
            await reach("objects.reject")
            await repo.reject(connection, found.rejected, now)
        self._queue.wake(DELIVER, REJECTED)
        reasons = Counter(item.reason for item in found.ignored)
        reasons["no such organization, or another bucket"] += strangers
        structlog.get_logger().info(
            "object events", accepted=len(notices), ignored=dict(+reasons),
            rejected=[item.reason for item in found.rejected[:10]],
        )  # fmt: skip
        return Taken(len(notices), len(found.ignored) + strangers, len(found.rejected))

    def _is_ours(self, notice: Notice) -> bool:
        return self._bucket is None or notice.bucket in {None, self._bucket}

    async def handle_rejected(self, job: Job[RejectedNotice]) -> Verdict:
        """Redriven, for instance after an upgrade, a notice is read again first."""
        item = await repo.rejected(self._db, job.payload.noticeId)
        if item is None:
            return Done()
        if not normalise(item.raw).rejected:
            await self.take(item.raw)
            return Done()
        return Dead(Failure(item.code, item.reason))
