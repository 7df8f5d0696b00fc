"""Submissions' background work, put together."""

from typing import Any

from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, JobKind, Nothing, Schedule, Verdict
from safelight.settings import Settings
from safelight.submissions.gone import SourceGone
from safelight.submissions.kinds import PROCESS, RECOVER, RELEASE, SOURCE_GONE
from safelight.submissions.process import Process
from safelight.submissions.release import Release
from safelight.submissions.rescue import Rescue
from safelight.submissions.tempo import whole_seconds

KINDS: tuple[JobKind[Any], ...] = (PROCESS, RELEASE, SOURCE_GONE, RECOVER)


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return (Schedule(RECOVER, whole_seconds(settings.recovery_interval_seconds)),)


def handlers(
    process: Process, release: Release, gone: SourceGone, rescue: Rescue
) -> tuple[Handler[Any], ...]:
    async def recover(_: Job[Nothing]) -> Verdict:
        await rescue.run()
        return Done()

    return (
        Handler(PROCESS, process.handle, on_dead=process.on_dead),
        Handler(RELEASE, release.handle),
        Handler(SOURCE_GONE, gone.handle),
        Handler(RECOVER, recover),
    )
