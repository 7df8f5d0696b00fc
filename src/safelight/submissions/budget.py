"""How often recovery has started a submission again: `recovery:budget:{id}`, for 24 hours from the
last time. A marker of the older kind (`recovery:retried:{id}`) counts as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from safelight.infra.injected import iso
from safelight.submissions.moments import to_ms

TTL_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Budget:
    count: int = 0
    last_retry_at: int | None = None
    next_retry_after: int | None = None

    def spend(self, now: int, backoff_ms: Sequence[int]) -> "Budget":
        """The last wait serves for every retry beyond the list."""
        wait = backoff_ms[min(self.count, len(backoff_ms) - 1)]
        return Budget(self.count + 1, now, now + wait)

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "lastRetryAt": None if self.last_retry_at is None else iso(self.last_retry_at),
            "nextRetryAfter": None if self.next_retry_after is None else iso(self.next_retry_after),
        }

    @classmethod
    def load(cls, value: dict[str, Any]) -> "Budget":
        last, following = value.get("lastRetryAt"), value.get("nextRetryAfter")
        return cls(
            value["count"], to_ms(last) if last else None, to_ms(following) if following else None
        )


def read(value: dict[str, Any] | None, legacy: object | None) -> Budget:
    """The budget comes first; the old marker speaks only where there is none."""
    if value is not None:
        return Budget.load(value)
    return Budget(1) if legacy is not None else Budget()


def key(submission_id: str) -> str:
    return f"recovery:budget:{submission_id}"


def legacy_key(submission_id: str) -> str:
    return f"recovery:retried:{submission_id}"
