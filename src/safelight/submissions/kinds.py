"""The jobs about a submission. Their handlers are put together in jobs.py."""

import os
from dataclasses import dataclass
from typing import Final

from safelight.infra.queue.jobs import Backoff, JobKind, Nothing
from safelight.submissions import repo

# Later than any run that had begun before can still be storing something.
RELEASE_AFTER_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class About:
    submissionId: str  # noqa: N815 - payloads are JSON that people read


@dataclass(frozen=True, slots=True)
class Gone:
    """A source that was deleted."""

    kind: str
    sourceId: str  # noqa: N815 - likewise


def _subject(about: About) -> str:
    return f"submission:{about.submissionId}"


# Attempts count workers that died: a run that fails ends its job, and recovery starts another.
PROCESS = JobKind(
    repo.PROCESS,
    payload=About,
    limit=os.cpu_count() or 1,
    retry=Backoff(attempts=3),
    subject=_subject,
)
RELEASE = JobKind(
    "submissions.release",
    payload=About,
    limit=2,
    retry=Backoff(attempts=10, cap=600),
    subject=_subject,
)
SOURCE_GONE = JobKind(
    "submissions.source_gone",
    payload=Gone,
    limit=2,
    retry=Backoff(attempts=10, cap=600),
    subject=lambda gone: f"{gone.kind}:{gone.sourceId}",
)
RECOVER = JobKind("submissions.recover", payload=Nothing, limit=1)
