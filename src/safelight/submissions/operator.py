"""What the operator sees of stuck submissions; timeouts.py has the numbers by the hour."""

from typing import Any

from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.submissions import budget, repo
from safelight.submissions.inflight import Inflight
from safelight.submissions.repo import Seen
from safelight.submissions.tempo import Tempo

_MOST = 200


async def stuck(db: Database, now: int, tempo: Tempo) -> list[dict[str, Any]]:
    """Those that recovery looks at, longest first."""
    found = await repo.stuck(db, now - tempo.stuck_after_ms, (0, ""), _MOST, now)
    return [_shown(seen, now) for seen in found]


def _shown(seen: Seen, now: int) -> dict[str, Any]:
    submission = seen.submission
    record = None if seen.inflight is None else Inflight.load(seen.inflight)
    spent = budget.read(seen.budget, seen.legacy)
    due = spent.next_retry_after
    return {
        "submissionId": submission.id,
        "state": submission.state,
        "stage": record.stage if record else submission.state,
        "stuckForMs": now - submission.updated_at,
        "classification": record.error.classification if record and record.error else None,
        "attempt": record.attempt if record else submission.run,
        "nextRetryAfter": None if due is None else iso(due),
    }
