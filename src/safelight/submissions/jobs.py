"""Submissions' background work: kinds, payloads, schedules. services.py has the handlers."""

import os
from dataclasses import dataclass
from typing import Any, Final

from safelight.infra.queue.jobs import Backoff, JobKind, Nothing, Schedule
from safelight.settings import Settings

# Later than any run that had begun before can still be storing something.
RELEASE_AFTER_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class SubmissionPayload:
    submissionId: str  # noqa: N815 - payloads are JSON that people read


@dataclass(frozen=True, slots=True)
class SourceDeletedPayload:
    kind: str
    sourceId: str  # noqa: N815 - likewise


@dataclass(frozen=True, slots=True)
class RuledOutPayload:
    entryId: str  # noqa: N815 - likewise


def _subject(payload: SubmissionPayload) -> str:
    return f"submission:{payload.submissionId}"


# Its attempts are hardly ever spent: a run that fails ends its job, and what follows is
# not the queue's to say: recovery enqueues the next one, as often as SAFELIGHT_RECOVERY_RETRIES
# and as far apart as SAFELIGHT_RECOVERY_BACKOFF_SECONDS say (recovery/recover.py).
PROCESS = JobKind(
    "submissions.process",
    payload=SubmissionPayload,
    limit=os.cpu_count() or 1,
    retry=Backoff(attempts=3),
    subject=_subject,
)
RELEASE = JobKind(
    "submissions.release",
    payload=SubmissionPayload,
    limit=2,
    retry=Backoff(attempts=10, cap=600),
    subject=_subject,
)
SOURCE_GONE = JobKind(
    "submissions.source_gone",
    payload=SourceDeletedPayload,
    limit=2,
    retry=Backoff(attempts=10, cap=600),
    subject=lambda deleted: f"{deleted.kind}:{deleted.sourceId}",
)
TAKE_DOWN = JobKind(
    "submissions.take_down",
    payload=RuledOutPayload,
    limit=2,
    retry=Backoff(attempts=10, cap=600),
    subject=lambda entry: f"blocklist:{entry.entryId}",
)
RECOVER = JobKind("submissions.recover", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (PROCESS, RELEASE, SOURCE_GONE, TAKE_DOWN, RECOVER)


def whole_seconds(seconds: float) -> int:
    """What a schedule can keep."""
    return max(1, round(seconds))


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return (Schedule(RECOVER, whole_seconds(settings.recovery_interval_seconds)),)
