"""When a task is tried, or asked about, again: doubling waits inside the generation's time."""

FIRST, LONGEST = 1.0, 30.0
FIRST_LOOK, LONGEST_LOOK = 1.0, 10.0
LONGEST_HINT = 600.0


def wait(attempt: int, retry_after: float | None, now: int, deadline: int) -> float | None:
    """Seconds until the next attempt; None when that would be too late. A provider's own hint is
    honoured unless it is shorter than ours."""
    seconds = min(FIRST * 2.0 ** min(attempt - 1, 30), LONGEST)
    if retry_after is not None:
        seconds = max(min(retry_after, LONGEST_HINT), seconds / 2)
    return None if now + seconds * 1000 >= deadline else seconds


def poll_wait(attempt: int) -> float:
    """Between questions about a task that takes longer than its call."""
    return min(FIRST_LOOK * 1.5 ** min(attempt - 1, 30), LONGEST_LOOK)
