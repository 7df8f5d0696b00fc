"""The worker: claims jobs in batches, runs them as tasks, and sees to it that their end is written.

One loop does the writing (outcomes, tend, claim), so there is one place to supervise: whatever goes
wrong there is logged and tried again.

Guarantees
- Leases are renewed only for jobs in this worker's hands. A lost answer therefore heals by expiry:
  nothing sticks under a live worker.
- What it has in hand it never takes for expired itself, whatever became of the clocks; and after
  trouble with the database it gives the others time to renew before it looks at their leases.
- Jobs of a worker that was killed are taken over without waiting for their leases to end.
- A job whose older handler still runs here is not started beside it.
- Of the jobs that were there when workers died (suspects) it runs one at a time, and none in its
  own first seconds: a process that dies at its start is to blame itself.
- Stopping drains within a limit, then gives back what is left, attempt refunded; cancelling gives
  back at once. What could not even be given back is taken over when its lease ends.

Gaps
- A loop blocked for longer than the lease loses its jobs; the watchdog says where it stood.
- A handler that waits for a thread cannot be stopped, only disowned: the fence refuses its end.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import structlog

from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler, matched
from safelight.infra.queue.jobs import (
    TIMETABLE,
    TOPIC,
    Dead,
    Job,
    JobId,
    JobOutcome,
    PutBack,
    Schedule,
    Verdict,
)
from safelight.infra.queue.ledger import Ledger, outcome_of
from safelight.infra.queue.presence import Missing, Presence
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.slots import Opening, Slots
from safelight.infra.queue.watchdog import LoopWatchdog
from safelight.infra.turns import Turns, whose

_POLL_SECONDS = 1.0
_SHORTEST_WAIT = 0.02  # for what is due but locked by somebody else
_TIMER_SLACK = 0.001
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LEAVE_SECONDS = _PATIENCE = 5.0
_CANCEL_SECONDS = 1.0
_CONNECTIONS = 2  # one for the loop, one for the leases: handlers cannot starve either
CONNECTIONS = _CONNECTIONS + 1  # beside the pool; the last is its presence
_GRACE_SECONDS = 1.0  # for somebody who has lost a connection to be back
_QUIET_SECONDS = 5.0
_PAUSE_BEHIND_OLDER = 1.0
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps

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
        grace: float = _GRACE_SECONDS,
        quiet: float = _QUIET_SECONDS,
    ) -> None:
        self._queue = queue
        self._handlers = matched(queue.kinds, handlers)
        self._schedules = schedules
        self._poll = poll
        self._grace = grace
        self._quiet = quiet
        self._missing = Missing(grace)
        self._lease = queue.lease.total_seconds()
        kinds = queue.kinds.values()
        self._slots = Slots(
            {kind.name: kind.limit for kind in kinds}, {kind.name: kind.ahead for kind in kinds}
        )
        self._turns = {kind.name: Turns(kind.limit, guests=True) for kind in kinds if kind.ahead}
        self._running: dict[JobId, asyncio.Task[Verdict]] = {}
        self._news = asyncio.Event()
        self._due = self._counted = self._renewed = self._turned = 0.0
        self._started = self._patient_until = 0.0
        self._suspect_at: float | None = None
        self._overdue = False
        self._stopping = self._leaving = False
        self._watchdog = LoopWatchdog(self._lease / 2)

    async def start(self) -> None:
        queue = self._queue
        await repo.declare(queue.db, self._schedules, queue.node)
        self._db = await Database.open(queue.db.address, pool_size=_CONNECTIONS)
        self._ledger = Ledger(self._db, queue, self._handlers)
        self._unsubscribe = queue.bus.subscribe(TOPIC, self._hear, resync=self._look_at_everything)
        self._renewed = self._started = _now()
        self._presence = Presence(self._db, queue.owner, queue.node, self._lease / 3)
        await self._presence.start()
        self._watchdog.start()
        self._attending = asyncio.create_task(self._attend())
        self._renewing = asyncio.create_task(self._renew_for_ever())
        queue.employ(self._admit, self)

    async def stop(self, limit: float = 20.0) -> None:
        """Takes nothing new, waits for what runs, then gives back the rest."""
        self._stopping = True
        for job in self._ledger.held:
            if job.kind.waits_itself and job.id in self._running:
                self._running[job.id].cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=limit)
        self._leaving = True
        self._news.set()
        await asyncio.wait([self._attending], timeout=_LEAVE_SECONDS)
        self._attending.cancel()
        await asyncio.wait([self._attending], timeout=_LEAVE_SECONDS)

    @property
    def healthy(self) -> bool:
        return not self._stopping and _now() - self._turned < self._poll + _PATIENCE

    # The loop

    async def _attend(self) -> None:
        pause = 0.0
        try:
            while not self._leaving:
                try:
                    await self._turn()
                    self._turned, pause = _now(), 0.0
                except Exception as error:  # noqa: BLE001 - nothing may end this loop quietly
                    pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                    log.warning("queue.trouble", error=repr(error), again_in=pause)
                    await asyncio.sleep(pause)
                    self._due, self._patient_until = 0.0, _now() + self._grace
                    self._missing.forget()
                else:
                    await self._rest()
        finally:
            await self._leave()

    async def _turn(self) -> None:
        await self._ledger.write_outcomes()
        if _now() >= self._due:
            await self._tend()
        if not self._stopping and (openings := self._slots.openings()):
            await self._claim(openings)
        if not self._stopping and self._suspect_at is not None and _now() >= self._suspect_at:
            await self._claim_suspect()

    async def _rest(self) -> None:
        if not self._news.is_set():
            wait = max(self._due - _now(), 0.0)
            alarm = asyncio.get_running_loop().call_later(wait, self._news.set)
            try:
                await self._news.wait()
            finally:
                alarm.cancel()
        self._news.clear()

    async def _tend(self) -> None:
        """Moves on what is due, and learns which kinds have work and when to look again."""
        if self._overdue or _now() - self._renewed > self._lease / 2:
            await self._renew()
        queue, kinds = self._queue, list(self._handlers)
        names = [schedule.name(queue.node) for schedule in self._schedules]
        held = [job.id for job in self._ledger.held]
        patient = _now() < self._patient_until
        self._due = _now() + self._poll  # news during the statement moves it closer again
        seen = await repo.tend(
            self._db, kinds, queue.node, names, owner=queue.owner, held=held, patient=patient
        )
        self._slots.want(seen.ready)
        self._overdue = seen.wait is not None and seen.wait <= 0
        if seen.wait is not None:
            self._look_in(max(seen.wait + _TIMER_SLACK, _SHORTEST_WAIT))
        if patient:
            self._look_in(self._patient_until - _now())
        self._look_out_for_suspects(seen.suspect)
        await self._take_over(seen.absent)
        await self._claim_guests(seen.ready)
        if _now() - self._counted > _POLL_SECONDS:
            self._counted = _now()
            await self._ledger.count()

    def _look_in(self, seconds: float) -> None:
        self._due = min(self._due, _now() + seconds)

    def _look_out_for_suspects(self, wait: float | None) -> None:
        self._suspect_at = None
        if wait is not None and not any(job.suspect for job in self._ledger.held):
            self._suspect_at = max(_now() + wait, self._started + self._quiet)
            self._look_in(self._suspect_at - _now())

    async def _take_over(self, absent: Sequence[str]) -> None:
        if gone := self._missing.gone(absent, _now()):
            log.warning("queue.taken_over", owners=gone)
            await repo.take_over(self._db, gone)
            self._due = 0.0
            self._news.set()
        elif (wait := self._missing.wait(_now())) is not None:
            self._look_in(wait)

    async def _claim(self, openings: list[Opening]) -> None:
        queue = self._queue
        try:
            rows = await repo.claim(self._db, openings, queue.node, queue.owner, queue.lease)
        except BaseException:
            self._slots.claimed(openings, {})
            self._slots.want(opening.kind for opening in openings)
            raise
        got: dict[str, list[str]] = {}
        for row in rows:
            got.setdefault(row["kind"], []).append(row["organization"])
        self._admit_all(rows)
        self._slots.claimed(openings, got)

    async def _claim_guests(self, ready: Sequence[str]) -> None:
        queue = self._queue
        for kind, busy in self._slots.crowded(ready).items() if not self._stopping else ():
            self._admit_all(
                await repo.claim_guest(self._db, kind, busy, queue.node, queue.owner, queue.lease)
            )

    async def _claim_suspect(self) -> None:
        queue, self._suspect_at = self._queue, None
        free = self._slots.free()
        self._admit_all(
            await repo.claim_suspect(self._db, free, queue.node, queue.owner, queue.lease)
        )

    def _admit_all(self, rows: Iterable[Any]) -> None:
        for row in rows:
            self._admit(Job.load(self._handlers[row["kind"]].kind, row))

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001 - the next one may succeed
                log.warning("queue.not_renewed", error=repr(error))

    async def _renew(self) -> None:
        await self._ledger.renew()
        self._renewed = _now()

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
                await self._presence.stop()
                await self._db.close()
        except Exception as error:  # noqa: BLE001 - there is nobody left to tell
            log.warning("queue.left_in_a_hurry", error=repr(error))
        finally:
            self._queue.employ(None)
            self._presence.abandon()
            self._db.terminate()

    async def _cancel_running(self) -> None:
        """A handler that ignores it is disowned: what it still does, the fence refuses."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_CANCEL_SECONDS)

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
        """Takes in a job that is leased to us. Without a slot it goes back to the queue, where it
        has its place: what is handed over has no turn before anybody else's."""
        self._ledger.hold(job)
        if self._stopping:
            self._end(job, PutBack(0.0, None))
        elif job.exhausted:
            self._end(job, Dead(job.last_words))
        elif job.id in self._running:
            self._running[job.id].cancel()  # in vain, as its end will be refused
            self._end(job, PutBack(_PAUSE_BEHIND_OLDER, None))
        elif self._slots.take(job.kind.name, job.organization):
            self._run(job)
        else:
            self._end(job, PutBack(0.0, None))

    def reserve(self, kind: str, organization: str) -> bool:
        """A slot for a job that somebody here is about to enqueue for us."""
        return not self._stopping and self._slots.reserve(kind, organization)

    def release(self, kind: str, organization: str) -> None:
        self._slots.release(kind, organization)
        if self._slots.open(kind):
            self._news.set()

    def _run(self, job: Job[Any]) -> None:
        handler, turns = self._handlers[job.kind.name], self._turns.get(job.kind.name)
        task = asyncio.create_task(_handle(handler, job, turns))
        self._running[job.id] = task
        # In a callback, not in the task: a task cancelled before its first step runs no line of it.
        task.add_done_callback(partial(self._ran, job))

    def _ran(self, job: Job[Any], task: "asyncio.Task[Verdict]") -> None:
        kind = job.kind.name
        del self._running[job.id]
        self._end(job, outcome_of(job, task, stopping=self._stopping))
        self.release(kind, job.organization)

    def _end(self, job: Job[Any], outcome: JobOutcome) -> None:
        if job.suspect:
            self._hear(TIMETABLE)  # the next one can have its turn
        if not self._ledger.add(job, outcome):
            return
        if isinstance(outcome, PutBack) and outcome.after > 0:
            self._look_in(outcome.after)
        elif isinstance(outcome, PutBack):
            self._slots.want([job.kind.name])
        self._news.set()


async def _handle(handler: Handler[Any], job: Job[Any], turns: Turns | None) -> Verdict:
    structlog.contextvars.bind_contextvars(job=job.id, kind=job.kind.name)
    whose.set(job.organization)
    async with turns.turn() if turns else nullcontext():
        await reach("queue.run")
        return await handler.handle(job)


def _now() -> float:
    return time.clock_gettime(_CLOCK)
