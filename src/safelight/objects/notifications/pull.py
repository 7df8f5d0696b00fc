"""Fetches a bucket's notifications where they wait, for servers that nobody can send them to.

Each message goes through the same transaction as one that was sent, and is answered for after its
commit. A death in between, or an answer that is lost, brings it again, and then it changes nothing:
the library knows what became of the first. One message's fate is never another's: what can be
recorded is; what can never be becomes a dead letter (objects.rejected) and is done; while the
database is away, it is to come again. Nothing is fetched then, since this is a job: there is one
at a time, whose worker renews its lease, and which another one takes over.

A courier that is away costs nothing and leaves no dead letter; the job waits, as long as it is
asked to.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from prometheus_client import Counter, Gauge

from safelight.infra.away import is_away
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Failure, Job, Nothing, Retry, Verdict
from safelight.infra.turns import Turns
from safelight.objects.notifications.couriers.base import Courier, CourierAway, Fetched, Parcel
from safelight.objects.notifications.intake import Intake
from safelight.objects.notifications.normalise import TooManyRecords

_AT_ONCE: Final = 4
_TAKE_SECONDS: Final = 10.0
_FIRST_WAIT: Final = 10
_LONGEST_WAIT: Final = 900
# A courier may give a message up after a few attempts, and then nobody would ever see it.
_LAST_ATTEMPT: Final = 3

log = structlog.get_logger()


class PullNotices:
    def __init__(self, courier: Courier, intake: Intake, clock: Clock, metrics: Metrics) -> None:
        self._courier = courier
        self._intake = intake
        self._clock = clock
        self._turns = Turns(_AT_ONCE)
        self._count = Counter(
            "safelight_notifications",
            "Fetched notifications: received, acked, retried; lost: answers that were not taken.",
            ("outcome",),
            registry=metrics.registry,
        )
        self._backlog = Gauge(
            "safelight_notifications_backlog",
            "How many more wait, by what the queue said last.",
            registry=metrics.registry,
        )
        self._lag = Gauge(
            "safelight_notifications_lag_seconds",
            "How old the oldest was of those fetched last; 0: none waited.",
            registry=metrics.registry,
        )

    async def close(self) -> None:
        await self._courier.close()

    async def handle(self, job: Job[Nothing]) -> Verdict:
        """Goes on while some come."""
        failed = job.waits > 0
        try:
            more = True
            while more:
                found = await self._fetch()
                if failed:
                    log.info("notifications are fetched again", queue=self._courier.where)
                failed, more = False, bool(found.parcels)
                await self._take_all(found.parcels)
        except CourierAway as error:
            if not failed:
                log.warning(
                    "notifications cannot be fetched",
                    queue=self._courier.where,
                    error=error.message,
                )
            return Retry(error, after=error.retry_after, away=True)
        return Done()

    async def _fetch(self) -> Fetched:
        await reach("objects.receive_notices")
        found = await self._courier.receive()
        self._count.labels("received").inc(len(found.parcels))
        if found.backlog is not None:
            self._backlog.set(found.backlog)
        sent = [parcel.sent_ms for parcel in found.parcels if parcel.sent_ms is not None]
        now = self._clock.now_ms()
        self._lag.set(max(now - min(sent, default=now), 0) / 1000)
        return found

    async def _take_all(self, parcels: Sequence[Parcel]) -> None:
        if not parcels:
            return
        failures = await asyncio.gather(*(self._take(parcel) for parcel in parcels))
        fates = list(zip(parcels, failures, strict=True))
        done = [parcel for parcel, failure in fates if failure is None]
        again = [(parcel, wait_of(parcel.attempts)) for parcel, failure in fates if failure]
        await reach("objects.answer_notices")
        lost = await self._courier.answer(done, again)
        for outcome, count in (("acked", len(done)), ("retried", len(again)), ("lost", lost)):
            self._count.labels(outcome).inc(count)
        away = [failure for failure in failures if failure and is_away(failure)]
        if away:
            raise away[0]  # the surroundings are, and nothing is fetched meanwhile

    async def _take(self, parcel: Parcel) -> Exception | None:
        """None: it is done with. Else why it has to come again."""
        async with self._turns.turn():
            try:
                async with asyncio.timeout(_TAKE_SECONDS):
                    await self._recorded(parcel)
            except Exception as error:
                if not is_away(error):
                    log.exception("notification.failed", attempts=parcel.attempts)
                return error
        return None

    async def _recorded(self, parcel: Parcel) -> None:
        try:
            await self._intake.take(parcel.body)
        except TooManyRecords as error:
            await self._intake.refuse(parcel.body, Failure.of(error))
        except Exception as error:
            if is_away(error) or parcel.attempts < _LAST_ATTEMPT:
                raise
            log.exception("notification.given_up", attempts=parcel.attempts)
            await self._intake.refuse(parcel.body, Failure.of(error))


def wait_of(attempts: int) -> int:
    """Seconds until it is to come again."""
    return int(min(_FIRST_WAIT * 2 ** min(max(attempts - 1, 0), 20), _LONGEST_WAIT))
