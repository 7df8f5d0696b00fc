"""Approvals' background work: ending those whose time ran out. A look a minute, rather than a job
per approval, keeps the queue free of work that is a week away."""

from typing import Any

from safelight.approvals.workflow import Approvals
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import MINUTE, Done, Job, JobKind, Nothing, Schedule, Verdict

EXPIRE = JobKind("approvals.expire", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (EXPIRE,)
SCHEDULES = (Schedule(EXPIRE, MINUTE),)


def handlers(approvals: Approvals) -> tuple[Handler[Any], ...]:
    async def expire(_: Job[Nothing]) -> Verdict:
        await approvals.expire_due()
        return Done()

    return (Handler(EXPIRE, expire),)
