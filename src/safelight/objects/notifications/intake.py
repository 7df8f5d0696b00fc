"""Takes a store's notifications in: what can be processed gets a job, what cannot a dead letter."""

from collections import Counter
from dataclasses import dataclass

import structlog

from safelight.accounts import repo as accounts
from safelight.infra.activity import Units
from safelight.infra.queue.jobs import TOPIC, Dead, Done, Failure, Job, Verdict
from safelight.objects.jobs import DELIVER, REJECTED, RejectedNoticePayload
from safelight.objects.notifications import repo
from safelight.objects.notifications.normalise import normalise
from safelight.objects.notifications.notice import Notice


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    accepted: int
    ignored: int
    rejected: int


class Intake:
    def __init__(self, units: Units, bucket: str | None = None) -> None:
        self._units = units
        self._bucket = bucket  # ours, when there is one: a neighbour's events are not for us

    async def take(self, body: object) -> IntakeCounts:
        """All of one body in one transaction: a sender that hears nothing sends it again, whole."""
        found = normalise(body)
        organizations = {notice.organization for notice in found.events}
        known = await accounts.known_organizations(self._units.db, sorted(organizations))
        notices = [n for n in found.events if n.organization in known and self._is_ours(n)]
        strangers = len(found.events) - len(notices)
        async with self._units.open("") as unit:
            await repo.add_events(unit.connection, notices, unit.now)
            await repo.add_rejected(unit.connection, found.rejected, unit.now)
            for kind in (DELIVER, REJECTED):
                unit.announce(TOPIC, kind.name)
        reasons = Counter(item.reason for item in found.ignored)
        reasons["no such organization, or another bucket"] += strangers
        structlog.get_logger().info(
            "object events", accepted=len(notices), ignored=dict(+reasons),
            rejected=[item.reason for item in found.rejected[:10]],
        )  # fmt: skip
        return IntakeCounts(len(notices), len(found.ignored) + strangers, len(found.rejected))

    def _is_ours(self, notice: Notice) -> bool:
        return self._bucket is None or notice.bucket in {None, self._bucket}

    async def handle_rejected(self, job: Job[RejectedNoticePayload]) -> Verdict:
        """Redriven, for instance after an upgrade, a notice is read again first."""
        item = await repo.rejected(self._units.db, job.payload.noticeId)
        if item is None:
            return Done()
        if not normalise(item.raw).rejected:
            await self.take(item.raw)
            return Done()
        return Dead(Failure(item.code, item.reason))
