"""Generations' background work, joined to its kinds."""

from collections.abc import Awaitable, Callable
from typing import Any

from safelight.generations.alarm import Alarm, Stop
from safelight.generations.kinds import ALARM, DELIVER, ORPHANS, PURGE, STOP, WORK
from safelight.generations.studio.delivery import Delivery
from safelight.generations.sweep import Sweep
from safelight.generations.work import Work
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, JobKind, Nothing, Verdict


def handlers(
    work: Work, alarm: Alarm, stop: Stop, delivery: Delivery, sweep: Sweep
) -> tuple[Handler[Any], ...]:
    return (
        *(Handler(kind, work.handle, on_dead=work.on_dead) for kind in WORK.values()),
        Handler(ALARM, alarm.handle),
        Handler(STOP, stop.handle),
        Handler(DELIVER, delivery.handle),
        _upkeep(PURGE, sweep.purge),
        _upkeep(ORPHANS, sweep.orphans),
    )


def _upkeep(kind: JobKind[Nothing], run: Callable[[], Awaitable[object]]) -> Handler[Nothing]:
    async def handle(_: Job[Nothing]) -> Verdict:
        await run()
        return Done()

    return Handler(kind, handle)
