"""The housekeeping of the whole instance: once an hour, whichever process is free."""

from typing import Any

from safelight.infra.queue.jobs import HOUR, JobKind, Nothing, Schedule
from safelight.settings import Settings

UPKEEP = JobKind("admin.upkeep", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (UPKEEP,)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(UPKEEP, HOUR),)
