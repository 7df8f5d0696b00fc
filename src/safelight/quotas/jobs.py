"""Adding up what was deleted and generated, where no upload does so on its way."""

from typing import Any

from safelight.infra.queue.jobs import HOUR, JobKind, Nothing, Schedule
from safelight.settings import Settings

FOLD = JobKind("quotas.fold", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (FOLD,)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(FOLD, HOUR),)
