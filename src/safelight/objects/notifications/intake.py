"""Takes a store's notifications in: what can be processed gets a job, what cannot a dead letter."""

import asyncio
from collections import Counter
from dataclasses import dataclass

import structlog

from safelight.accounts import repo as accounts
from safelight.infra.activity import Units
from safelight.infra.queue.jobs import TOPIC, Dead, Done, Failure, Job, Verdict
from safelight.objects.jobs import DELIVER, RejectedNoticePayload
from safelight.objects.notifications import repo
from safelight.objects.notifications.normalise import TooManyRecords, normalise, rejected
from safelight.objects.notifications.notice import Normalised, Notice


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    accepted: int
    ignored: int
    rejected: int


class Intake:
    """`bucket` is ours, when there is one: a neighbour's events are not for us; nor are keys
    without its `prefix`, nor anything when our own writes are all that counts (not `heard`)."""

    def __init__(
        self, units: Units, bucket: str | None = None, prefix: str = "", *, heard: bool = True
    ) -> None:
        self._units = units
        self._bucket = bucket
        self._prefix = prefix
        self._heard = heard

    async def take(self, body: object) -> IntakeCounts:
        """All of one body in one transaction: a sender that hears nothing sends it again, whole."""
        found = await asyncio.to_thread(
            normalise, body, self._prefix
        )  # of megabytes, that takes seconds
        organizations = {notice.organization for notice in found.events}
        known = await accounts.known_organizations(self._units.db, sorted(organizations))
        notices = [n for n in found.events if n.organization in known and self._is_ours(n)]
        async with self._units.open("") as unit:
            await repo.add_events(unit.connection, notices, unit.now)
            await repo.add_rejected(unit.connection, found.rejected, unit.now)
            if found.confirmations:
                await repo.keep_confirmations(unit.connection, found.confirmations, unit.now)
            unit.announce(TOPIC, DELIVER.name)
        if found.events and not self._heard:
            structlog.get_logger().warning(
                "object events were ignored: Safelight tells of its own writes. Add events=bucket "
                "to SAFELIGHT_OBJECT_STORE_URL, or end the bucket's notifications",
                count=len(found.events),
            )
        return _told(found, len(notices))

    async def refuse(self, body: object, failure: Failure) -> None:
        """For one that can never be taken, by whatever it fails: a dead letter shows it."""
        item = rejected(body, failure.code, failure.message)
        async with self._units.open("") as unit:
            await repo.add_rejected(unit.connection, [item], unit.now)

    def _is_ours(self, notice: Notice) -> bool:
        return self._heard and (self._bucket is None or notice.bucket in {None, self._bucket})

    async def handle_rejected(self, job: Job[RejectedNoticePayload]) -> Verdict:
        """Redriven, for instance after an upgrade: it is read again."""
        item = await repo.rejected(self._units.db, job.payload.noticeId)
        if item is None:
            return Done()
        try:
            if (await asyncio.to_thread(normalise, item.raw, self._prefix)).rejected:
                return Dead(Failure(item.code, item.reason))
            await self.take(item.raw)
        except TooManyRecords as error:
            return Dead(error)
        return Done()


def _told(found: Normalised, accepted: int) -> IntakeCounts:
    """What became of them, in the log and as the sender hears it: a question is no event."""
    log, strangers = structlog.get_logger(), len(found.events) - accepted
    reasons = Counter(item.reason for item in found.ignored)
    reasons["no such organization, another bucket, or nothing is heard of it"] += strangers
    log.info(
        "object events", accepted=accepted, ignored=dict(+reasons),
        rejected=[item.reason for item in found.rejected[:10]],
    )  # fmt: skip
    for asked in found.confirmations[:10]:
        log.warning(
            "SNS asks for a confirmation: open the address once, if the topic is yours",
            kind=asked.kind, topic=asked.topic, address=asked.url,
        )  # fmt: skip
    ignored = len(found.ignored) + len(found.confirmations) + strangers
    return IntakeCounts(accepted, ignored, len(found.rejected))
