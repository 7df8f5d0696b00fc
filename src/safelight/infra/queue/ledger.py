"""What becomes of a job when its handler has ended (pure functions), and what a worker owes the
database: leases to renew, and ends to write.

Guarantee: an outcome stays here until it was taken or refused, however long the database is away or
its disk full; meanwhile nothing is claimed. Only an end that cannot be written because of a bug is
given another turn instead, with that for its error.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, assert_never

import structlog

from safelight.errors import public_words
from safelight.infra.away import is_away
from safelight.infra.db import AWAY, Database
from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import (
    DAY,
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    JobOutcome,
    LeaseLost,
    Lost,
    PutBack,
    Retry,
    Verdict,
)
from safelight.infra.queue.queue import Queue

_UNWRITTEN = Failure("END_UNWRITTEN", "The work was done.")
_LEAST_WAIT = 1.0
_LONGEST_WAIT = 365.0 * DAY
_PAUSE_AFTER_STRAY_CANCEL = 1.0

log = structlog.get_logger()


def outcome(job: Job[Any], verdict: object) -> JobOutcome:
    """A retry beyond the budget is a death. While the surroundings are away only patience ends."""
    if isinstance(verdict, Done | Dead):
        return verdict
    if not isinstance(verdict, Retry):
        verdict = Retry(TypeError(f"The handler returned {verdict!r} instead of a verdict."))
    away = verdict.away or (isinstance(verdict.error, BaseException) and is_away(verdict.error))
    wait, backoff = verdict.after, job.kind.retry
    if not backoff.patient(job.waits) if away else job.last_attempt:
        return Dead(verdict.error)
    if away:
        wait = max(backoff.wait_for_others(job.waits, _jitter(job.id, job.waits)), wait or 0.0)
    elif wait is None:
        wait = backoff.wait(job.attempt, _jitter(job.id, job.attempt))
    wait = min(wait, _LONGEST_WAIT) if wait > 0 else 0.0
    return PutBack(wait, _failure(job, verdict.error), away)


def outcome_of(job: Job[Any], ran: "asyncio.Task[Verdict]", *, stopping: bool) -> JobOutcome:
    """A cancelled job goes back unharmed, at once when the worker stops; otherwise after a pause,
    so that a handler which cancels itself does not spin."""
    if ran.cancelled():
        return PutBack(0.0 if stopping else _PAUSE_AFTER_STRAY_CANCEL, None)
    error = ran.exception()
    if error is None:
        return outcome(job, ran.result())
    return Lost() if isinstance(error, LeaseLost) else outcome(job, Retry(error))


def _failure(job: Job[Any], error: Failure | BaseException) -> Failure:
    """Jobs that are no organization's are seen by operators only."""
    failure = Failure.of(error)
    return failure if job.organization else failure.in_full


def _counted(done: Done) -> list[str]:
    """As what it goes into the throughput."""
    return ["failed" if done.failed else "processed", *(["retried"] if done.again else [])]


def _jitter(job_id: int, attempt: int) -> float:
    """Spread evenly over 0…1 by job and attempt; needs no randomness (Knuth's multiplier)."""
    return ((job_id * 31 + attempt) * 2_654_435_761 % 2**32) / 2**32


class Ledger:
    """What a worker owes the database. An outcome stays until it was taken or refused."""

    def __init__(self, db: Database, queue: Queue, handlers: Mapping[str, Handler[Any]]) -> None:
        self._db = db
        self._queue = queue
        self._handlers = handlers
        self._held: dict[tuple[JobId, int], Job[Any]] = {}  # by claim, too: an older one may linger
        self._done: list[tuple[Job[Any], Done]] = []
        self._again: list[tuple[Job[Any], PutBack]] = []
        self._dead: list[tuple[Job[Any], Failure]] = []
        self._counts: Counter[str] = Counter()

    def hold(self, job: Job[Any]) -> None:
        """From now on its lease is renewed, until its end is written."""
        self._held[job.id, job.claim] = job

    @property
    def held(self) -> list[Job[Any]]:
        return list(self._held.values())

    def add(self, job: Job[Any], outcome: JobOutcome) -> bool:
        """Takes an outcome in; whether there is something to write."""
        match outcome:
            case PutBack():
                self._again.append((job, outcome))
            case Dead():
                self._dead.append((job, _failure(job, outcome.error)))
            case Done(already=False):
                self._done.append((job, outcome))
            case Done():
                self._accepted(job, *_counted(outcome))
                return False
            case Lost():
                self._refused(job)
                return False
            case _:
                assert_never(outcome)
        return True

    async def write_outcomes(self) -> None:
        """Writes every outcome that is here. Raises if the database is away; then call again."""
        while self._done:
            finished = list(self._done)
            with self._otherwise(self._try_again, [(job, _UNWRITTEN) for job, _ in finished]):
                accepted = await repo.finish(self._db, [job for job, _ in finished])
                for job, done in finished:
                    self._written(job, accepted, *_counted(done))
            del self._done[: len(finished)]
        while self._dead:
            job, failure = self._dead[0]
            with self._otherwise(self._try_again, [(job, failure)]):
                await self._bury(job, failure)
            del self._dead[0]
        while self._again:
            returned = list(self._again)
            with self._otherwise(self._give_up, [(job, _UNWRITTEN) for job, _ in returned]):
                accepted = await repo.put_back(self._db, returned)
                for job, again in returned:
                    self._put_back(job, again, accepted)
            del self._again[: len(returned)]

    async def renew(self) -> None:
        if self._held:
            await repo.renew(self._db, self.held, self._queue.lease)

    async def count(self) -> None:
        """Writes how many ended how since the last time."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            await repo.count(self._db, counts["processed"], counts["failed"], counts["retried"])
        except BaseException:
            self._counts += counts
            raise

    @contextmanager
    def _otherwise(
        self, instead: Callable[[Job[Any], Failure], None], jobs: list[tuple[Job[Any], Failure]]
    ) -> Iterator[None]:
        """An end that cannot be written because of a bug, of ours or of a hook, must not hold up
        the others. While the database is away or short of room, it is only a matter of time."""
        try:
            yield
        except AWAY:
            raise
        except Exception as error:
            log.exception("job.end_unwritten", jobs=[job.id for job, _ in jobs])
            for job, failure in jobs:
                said = f"{failure.message} Its end could not be written: {public_words(error)}"
                instead(job, Failure(failure.code, said, failure.detail))

    def _try_again(self, job: Job[Any], failure: Failure) -> None:
        wait = max(job.kind.retry.longest(job.attempt), _LEAST_WAIT)
        self._again.append((job, PutBack(wait, failure)))

    def _give_up(self, job: Job[Any], _: Failure) -> None:
        """Its lease ends, and whoever takes it over comes back here."""
        self._let_go(job)

    async def _bury(self, job: Job[Any], failure: Failure) -> None:
        handler = self._handlers[job.kind.name]
        buried = await self._queue.dead_letters.bury(handler, job, failure)
        if buried:
            log.error("job.dead", job=job.id, kind=job.kind.name, **failure.in_full.to_json())
        self._written(job, {job.id} if buried else set(), "failed")

    def _put_back(self, job: Job[Any], again: PutBack, accepted: set[int]) -> None:
        if again.failure is None:
            self._let_go(job)
            return
        log.warning(
            "job.waits" if again.away else "job.retried", job=job.id, kind=job.kind.name,
            attempt=job.attempt, after=round(again.after, 3), **again.failure.in_full.to_json(),
        )  # fmt: skip
        self._written(job, accepted, "retried")

    def _written(self, job: Job[Any], accepted: set[int], *verdicts: str) -> None:
        if job.id in accepted:
            self._accepted(job, *verdicts)
        else:
            self._refused(job)

    def _let_go(self, job: Job[Any]) -> None:
        self._held.pop((job.id, job.claim), None)

    def _accepted(self, job: Job[Any], *verdicts: str) -> None:
        self._let_go(job)
        self._counts.update(verdicts)

    def _refused(self, job: Job[Any]) -> None:
        self._let_go(job)
        log.warning("job.lost", job=job.id, kind=job.kind.name, claim=job.claim)
