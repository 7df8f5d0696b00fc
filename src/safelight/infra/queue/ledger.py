"""What a worker owes the database: leases to renew, and ends to write.

Guarantee: an outcome stays here until it was taken or refused, however long the database is away or
its disk full; meanwhile nothing is claimed. Only an end that cannot be written because of a bug is
given another turn instead, with that for its error.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, assert_never

import structlog

from safelight.infra.db import AWAY, Database
from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import (
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    JobOutcome,
    Lost,
    PutBack,
)
from safelight.infra.queue.queue import Queue

_UNWRITTEN = Failure("END_UNWRITTEN", "The work was done.")
_LEAST_WAIT = 1.0

log = structlog.get_logger()


class Ledger:
    """What a worker owes the database. An outcome stays until it was taken or refused."""

    def __init__(self, db: Database, queue: Queue, handlers: Mapping[str, Handler[Any]]) -> None:
        self._db = db
        self._queue = queue
        self._handlers = handlers
        self._held: dict[tuple[JobId, int], Job[Any]] = {}  # by claim, too: an older one may linger
        self._done: list[Job[Any]] = []
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
                self._dead.append((job, Failure.of(outcome.error)))
            case Done(already=False):
                self._done.append(job)
            case Done():
                self._accepted(job, "processed")
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
            with self._otherwise(self._try_again, [(job, _UNWRITTEN) for job in finished]):
                accepted = await repo.finish(self._db, finished)
                for job in finished:
                    self._written(job, accepted, "processed")
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
                said = f"{failure.message} Its end could not be written: {error!r}"
                instead(job, Failure(failure.code, said))

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
            log.error("job.dead", job=job.id, kind=job.kind.name, **failure.to_json())
        self._written(job, {job.id} if buried else set(), "failed")

    def _put_back(self, job: Job[Any], again: PutBack, accepted: set[int]) -> None:
        if again.failure is None:
            self._let_go(job)
            return
        log.warning(
            "job.waits" if again.away else "job.retried", job=job.id, kind=job.kind.name,
            attempt=job.attempt, after=round(again.after, 3), **again.failure.to_json(),
        )  # fmt: skip
        self._written(job, accepted, "retried")

    def _written(self, job: Job[Any], accepted: set[int], verdict: str) -> None:
        if job.id in accepted:
            self._accepted(job, verdict)
        else:
            self._refused(job)

    def _let_go(self, job: Job[Any]) -> None:
        self._held.pop((job.id, job.claim), None)

    def _accepted(self, job: Job[Any], verdict: str) -> None:
        self._let_go(job)
        self._counts[verdict] += 1

    def _refused(self, job: Job[Any]) -> None:
        self._let_go(job)
        log.warning("job.lost", job=job.id, kind=job.kind.name, claim=job.claim)
