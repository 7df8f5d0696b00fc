"""What a worker owes the database: leases to renew, outcomes to write, throughput to count.

An outcome stays here until the database has taken or refused it, so a lost connection only delays
it. A refused one (the job was taken over) is logged and forgotten.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, assert_never

import structlog

from safelight.infra.db import AWAY, Database
from safelight.infra.queue import repo
from safelight.infra.queue.dead_letters import DeadLetters
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, JobId, JobOutcome, Lost, PutBack

log = structlog.get_logger()


class Ledger:
    def __init__(
        self,
        db: Database,
        dead_letters: DeadLetters,
        handlers: Mapping[str, Handler[Any]],
        lease: timedelta,
    ) -> None:
        self._db = db
        self._dead_letters = dead_letters
        self._handlers = handlers
        self._lease = lease
        self._held: dict[JobId, Job[Any]] = {}
        self._done: list[Job[Any]] = []
        self._again: list[tuple[Job[Any], PutBack]] = []
        self._dead: list[tuple[Job[Any], Failure]] = []
        self._counts: Counter[str] = Counter()

    def hold(self, job: Job[Any]) -> None:
        """From now on its lease is renewed, until its end is written."""
        self._held[job.id] = job

    def add(self, job: Job[Any], outcome: JobOutcome) -> bool:
        """Takes an outcome in; whether there is something to write."""
        if isinstance(outcome, PutBack):
            self._again.append((job, outcome))
        elif isinstance(outcome, Dead):
            self._dead.append((job, Failure.of(outcome.error)))
        elif isinstance(outcome, Lost):
            self._refused(job)
            return False
        elif isinstance(outcome, Done):
            return self._end_well(job, outcome)
        else:
            assert_never(outcome)
        return True

    def _end_well(self, job: Job[Any], done: Done) -> bool:
        if done.already:
            self._accepted(job, "processed")
        else:
            self._done.append(job)
        return not done.already

    async def write_outcomes(self) -> None:
        """Writes every outcome that is here. Raises if the database is away; then call again."""
        while self._done:
            finished = list(self._done)
            with self._letting_go(finished):
                accepted = await repo.finish(self._db, finished)
                for job in finished:
                    self._written(job, accepted, "processed")
            del self._done[: len(finished)]
        while self._again:
            returned = list(self._again)
            with self._letting_go([job for job, _ in returned]):
                accepted = await repo.put_back(self._db, returned)
                for job, again in returned:
                    self._put_back(job, again, accepted)
            del self._again[: len(returned)]
        while self._dead:
            job, failure = self._dead[0]
            with self._letting_go([job]):
                await self._bury(job, failure)
            del self._dead[0]

    async def renew(self) -> None:
        if self._held:
            await repo.renew(self._db, list(self._held.values()), self._lease)

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
    def _letting_go(self, jobs: list[Job[Any]]) -> Iterator[None]:
        """An end that cannot be written (a bug of ours, or of a hook) must not hold up the others:
        the leases end, and whoever takes the jobs over comes back here."""
        try:
            yield
        except AWAY:
            raise
        except Exception:
            log.exception("job.end_unwritten", jobs=[job.id for job in jobs])
            for job in jobs:
                self._let_go(job)

    async def _bury(self, job: Job[Any], failure: Failure) -> None:
        buried = await self._dead_letters.bury(self._handlers[job.kind.name], job, failure)
        if buried:
            log.error("job.dead", job=job.id, kind=job.kind.name, **failure.to_json())
        self._written(job, {job.id} if buried else set(), "failed")

    def _put_back(self, job: Job[Any], again: PutBack, accepted: set[int]) -> None:
        if again.failure is None:
            self._let_go(job)
            return
        log.warning(
            "job.retried", job=job.id, kind=job.kind.name, attempt=job.attempt,
            after=round(again.after, 3), **again.failure.to_json(),
        )  # fmt: skip
        self._written(job, accepted, "retried")

    def _written(self, job: Job[Any], accepted: set[int], verdict: str) -> None:
        if job.id in accepted:
            self._accepted(job, verdict)
        else:
            self._refused(job)

    def _let_go(self, job: Job[Any]) -> None:
        """One that was put off keeps its id: it may be in our hands again already."""
        held = self._held.get(job.id)
        if held is not None and held.claim == job.claim:
            del self._held[job.id]

    def _accepted(self, job: Job[Any], verdict: str) -> None:
        self._let_go(job)
        self._counts[verdict] += 1

    def _refused(self, job: Job[Any]) -> None:
        self._let_go(job)
        log.warning("job.lost", job=job.id, kind=job.kind.name, claim=job.claim)
