"""How submissions look on the wire."""

from typing import Any

from safelight.infra.injected import iso
from safelight.submissions import budget
from safelight.submissions.repo import Seen
from safelight.submissions.staleness import Progress, staleness
from safelight.submissions.tempo import Tempo


def show(seen: Seen, now: int, tempo: Tempo) -> dict[str, Any]:
    submission = seen.submission
    body: dict[str, Any] = {
        "id": submission.id,
        "state": submission.state,
        "source": {submission.source_kind: submission.source_id},
        "title": submission.title,
        "findings": submission.findings,
        "approvalId": submission.approval_id,
        "createdAt": iso(submission.created_at),
        "updatedAt": iso(submission.updated_at),
    }
    if submission.rejection:
        body["rejection"] = submission.rejection
    if stale := staleness(progress_of(seen), now, tempo):
        body["staleness"] = stale
    return body


def progress_of(seen: Seen) -> Progress:
    submission = seen.submission
    return Progress(
        submission.state,
        submission.updated_at,
        seen.waiting,
        budget.read(seen.budget, seen.legacy),
    )
