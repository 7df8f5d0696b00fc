"""Approvals' background work: ending those whose time ran out. A look a minute, rather than a job
per approval, keeps the queue free of work that is a week away."""

from typing import Any

from safelight.infra.queue.jobs import MINUTE, JobKind, Nothing, Schedule
from safelight.settings import Settings

EXPIRE = JobKind("approvals.expire", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (EXPIRE,)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(EXPIRE, MINUTE),)
