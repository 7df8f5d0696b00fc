"""Classification's background work: one run per marker."""

import os
from typing import Any

from safelight.classification.run import Classification, Running
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Backoff, JobKind

RUN = JobKind(
    "classification.run",
    payload=Running,
    # One per core works; as many again are reading their bytes or writing their results.
    limit=2 * (os.cpu_count() or 1),
    retry=Backoff(attempts=4, first=2.0, cap=120.0),
    subject=lambda running: f"upload:{running.name}",
)

KINDS: tuple[JobKind[Any], ...] = (RUN,)


def handlers(classification: Classification) -> tuple[Handler[Any], ...]:
    return (Handler(RUN, classification.handle, on_dead=classification.on_dead),)
