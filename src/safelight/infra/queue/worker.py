"""The worker: claims jobs in batches, runs them as tasks, and sees to it that their end is written.

One loop does the writing (outcomes, tend, claim), so there is one place to supervise: whatever goes
wrong there is logged and tried again.

Guarantees
- Leases are renewed only for jobs in this worker's hands. A lost answer therefore heals by expiry:
  nothing sticks under a live worker.
- After a time without the database it renews before it looks for expired leases.
- Stopping drains within a limit, then gives back what is left, attempt refunded; cancelling gives
  back at once. What could not even be given back is taken over when its lease ends.

Gaps
- A loop blocked for longer than the lease loses its jobs; the watchdog says where it stood.
- A handler that waits for a thread cannot be stopped, only disowned: the fence refuses its end.
"""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, assert_never

import structlog

from safelight.infra.db import AWAY, Database
from safelight.infra.failpoints import reach
from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler, matched
from safelight.infra.queue.jobs import (
    TIMETABLE,
    TOPIC,
    WORKER_DIED,
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    JobOutcome,
    Lost,
    Opening,
    PutBack,
    Schedule,
    Slots,
    Verdict,
    outcome_of,
)
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.watchdog import LoopWatchdog

_POLL_SECONDS = 1.0
_SHORTEST_WAIT = 0.02  # for what is due but locked by somebody else
_TIMER_SLACK = 0.001
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LEAVE_SECONDS = _PATIENCE = 5.0
_CANCEL_SECONDS = 1.0
_CONNECTIONS = 2  # one for the loop, one for the leases: handlers cannot starve either

log = structlog.get_logger()


class Worker:
    """One per queue. `healthy` says whether it gets through to the database."""

    def __init__(
        self,
        queue: Queue,
        handlers: Sequence[Handler[Any]],
        schedules: Sequence[Schedule] = (),
        *,
        poll: float = _POLL_SECONDS,
    ) -> None:
        self._queue = queue
        self._handlers = matched(queue.kinds, handlers)
        self._schedules = schedules
        self._poll = poll
        self._lease = queue.lease.total_seconds()
        self._slots = Slots({kind.name: kind.limit for kind in queue.kinds.values()})
        self._waiting: dict[str, deque[Job[Any]]] = defaultdict(deque)
        self._running: set[asyncio.Task[Verdict]] = set()
        self._news = asyncio.Event()
        self._due = self._counted = self._renewed = self._turned = 0.0
        self._stopping = self._leaving = False
        self._watchdog = LoopWatchdog(self._lease / 2)

    async def start(self) -> None:
        queue = self._queue
        await repo.declare(queue.db, self._schedules, queue.node)
        self._db = await Database.open(queue.db.url, pool_size=_CONNECTIONS)
        self._ledger = Ledger(self._db, queue, self._handlers)
        self._unsubscribe = queue.bus.subscribe(TOPIC, self._hear, resync=self._look_at_everything)
        self._renewed = time.monotonic()
        self._watchdog.start()
        self._attending = asyncio.create_task(self._attend())
        self._renewing = asyncio.create_task(self._renew_for_ever())
        queue.employ(self._admit)

    async def stop(self, limit: float = 20.0) -> None:
        """Takes nothing new, waits for what runs, then gives back the rest."""
        self._stopping = True
        for job in [job for jobs in self._waiting.values() for job in jobs]:
            self._end(job, PutBack(0.0, None))
        self._waiting.clear()
        if self._running:
            await asyncio.wait(self._running, timeout=limit)
        self._leaving = True
        self._news.set()
        await asyncio.wait([self._attending], timeout=_LEAVE_SECONDS)
        self._attending.cancel()
        await asyncio.wait([self._attending], timeout=_LEAVE_SECONDS)

    @property
    def healthy(self) -> bool:
        return not self._stopping and time.monotonic() - self._turned < self._poll + _PATIENCE

    # The loop

    async def _attend(self) -> None:
        pause = 0.0
        try:
            while not self._leaving:
                try:
                    await self._turn()
                    self._turned, pause = time.monotonic(), 0.0
                except Exception as error:  # noqa: BLE001 - nothing may end this loop quietly
                    pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                    log.warning("queue.trouble", error=repr(error), again_in=pause)
                    await asyncio.sleep(pause)
                    self._due = 0.0
                else:
                    await self._rest()
        finally:
            await self._leave()

    async def _turn(self) -> None:
        await self._ledger.write_outcomes()
        if time.monotonic() >= self._due:
            await self._tend()
        if not self._stopping and (openings := self._slots.openings()):
            await self._claim(openings)

    async def _rest(self) -> None:
        if not self._news.is_set():
            wait = max(self._due - time.monotonic(), 0.0)
            alarm = asyncio.get_running_loop().call_later(wait, self._news.set)
            try:
                await self._news.wait()
            finally:
                alarm.cancel()
        self._news.clear()

    async def _tend(self) -> None:
        """Moves on what is due, and learns which kinds have work and when to look again."""
        if time.monotonic() - self._renewed > self._lease / 2:
            await self._renew()
        names = [schedule.name(self._queue.node) for schedule in self._schedules]
        kinds = list(self._handlers)
        self._due = time.monotonic() + self._poll  # news during the statement moves it closer again
        ready, wait = await repo.tend(self._db, kinds, self._queue.node, names)
        self._slots.want(ready)
        if wait is not None:
            wait = max(wait + _TIMER_SLACK, _SHORTEST_WAIT)
            self._due = min(self._due, time.monotonic() + wait)
        if time.monotonic() - self._counted > _POLL_SECONDS:
            self._counted = time.monotonic()
            await self._ledger.count()

    async def _claim(self, openings: list[Opening]) -> None:
        queue = self._queue
        try:
            rows = await repo.claim(self._db, openings, queue.node, queue.owner, queue.lease)
        except BaseException:
            self._slots.want(opening.kind for opening in openings)
            raise
        got: dict[str, list[str]] = {}
        for job_id, kind, organization, payload, claim, attempt in rows:
            got.setdefault(kind, []).append(organization)
            known = self._handlers[kind].kind
            self._admit(Job(JobId(job_id), known, organization, payload, claim, attempt))
        self._slots.claimed(openings, got)

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001 - the next one may succeed
                log.warning("queue.not_renewed", error=repr(error))

    async def _renew(self) -> None:
        await self._ledger.renew()
        self._renewed = time.monotonic()

    async def _leave(self) -> None:
        """Gives back everything. Cut short, the leases end by themselves."""
        self._stopping = True
        self._renewing.cancel()
        self._watchdog.stop()
        self._unsubscribe()
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._cancel_running()
                await self._ledger.write_outcomes()
                await repo.give_back(self._db, self._queue.owner)
                self._queue.bus.announce(TOPIC, TIMETABLE)
                await self._ledger.count()
                await self._db.close()
        except Exception as error:  # noqa: BLE001 - there is nobody left to tell
            log.warning("queue.left_in_a_hurry", error=repr(error))
        finally:
            self._queue.employ(None)
            self._db.terminate()

    async def _cancel_running(self) -> None:
        """A handler that ignores it is disowned: what it still does, the fence refuses."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_CANCEL_SECONDS)

    # Jobs

    def _hear(self, detail: str) -> None:
        if detail == TIMETABLE:
            self._due = 0.0
        else:
            self._slots.want([detail])
        self._news.set()

    def _look_at_everything(self) -> None:
        self._hear(TIMETABLE)

    def _admit(self, job: Job[Any]) -> None:
        """Takes in a job that is leased to us; it runs as soon as its kind has a slot."""
        self._ledger.hold(job)
        if self._stopping:
            self._end(job, PutBack(0.0, None))
        elif job.exhausted:
            self._end(job, Dead(WORKER_DIED))
        elif self._slots.take(job.kind.name):
            self._run(job)
        else:
            self._waiting[job.kind.name].append(job)

    def _run(self, job: Job[Any]) -> None:
        task = asyncio.create_task(_handle(self._handlers[job.kind.name], job))
        self._running.add(task)
        # In a callback, not in the task: a task cancelled before its first step runs no line of it.
        task.add_done_callback(partial(self._ran, job))

    def _ran(self, job: Job[Any], task: "asyncio.Task[Verdict]") -> None:
        kind = job.kind.name
        self._running.discard(task)
        self._end(job, outcome_of(job, task, stopping=self._stopping))
        if (waiting := self._waiting.get(kind)) and not self._stopping:
            self._run(waiting.popleft())
            return
        self._slots.release(kind)
        if self._slots.wants(kind):
            self._news.set()

    def _end(self, job: Job[Any], outcome: JobOutcome) -> None:
        if not self._ledger.add(job, outcome):
            return
        if isinstance(outcome, PutBack) and outcome.after > 0:
            self._due = min(self._due, time.monotonic() + outcome.after)
        elif isinstance(outcome, PutBack):
            self._slots.want([job.kind.name])
        self._news.set()


async def _handle(handler: Handler[Any], job: Job[Any]) -> Verdict:
    structlog.contextvars.bind_contextvars(job=job.id, kind=job.kind.name)
    await reach("queue.run")
    return await handler.handle(job)


class Ledger:
    """What a worker owes the database. An outcome stays until it was taken or refused."""

    def __init__(self, db: Database, queue: Queue, handlers: Mapping[str, Handler[Any]]) -> None:
        self._db = db
        self._queue = queue
        self._handlers = handlers
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
            await repo.renew(self._db, list(self._held.values()), self._queue.lease)

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
        if self._held.get(job.id) == job:
            del self._held[job.id]

    def _accepted(self, job: Job[Any], verdict: str) -> None:
        self._let_go(job)
        self._counts[verdict] += 1

    def _refused(self, job: Job[Any]) -> None:
        self._let_go(job)
        log.warning("job.lost", job=job.id, kind=job.kind.name, claim=job.claim)
