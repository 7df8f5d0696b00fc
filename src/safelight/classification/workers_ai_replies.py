"""What an answer of Workers AI or its gateway means. Pure.

HTTP 429 alone does not say whether asking again helps; the code inside does. What the image is not
to blame for (an outage, too little capacity, a wrong token or address) passes or is put right: the
model is away. So it is behind a 200 that nobody can read, or that has no labels: a page of its
maintenance, or of somebody in between. Only what speaks of the request itself counts against the
image, and labels that cannot be.
"""

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias

from safelight.classification.base import ModelAway, ModelError
from safelight.classification.labels import label_of

ALLOWANCE_SPENT: Final = 3036
NO_CAPACITY: Final = 3040
MAX_LABEL: Final = 100
MOST_LABELS: Final = 5
_FINE: Final = 200
_OF_THE_IMAGE: Final = {400, 406, 411, 413, 415, 422}
_LONGEST_WAIT: Final = 3600.0
_CURES: Final = {
    401: "Check SAFELIGHT_WORKERS_AI_TOKEN, and SAFELIGHT_WORKERS_AI_GATEWAY_TOKEN for a gateway.",
    403: "Check that the token may run Workers AI and that the account is in good standing.",
    404: "Check SAFELIGHT_WORKERS_AI_URL.",
}

Labels: TypeAlias = tuple[tuple[str, float], ...]


def read(status: int, reply: bytes, hint: str | None, now_ms: int) -> Labels:
    """The highest scores first, whatever the order; `hint` is the Retry-After header."""
    if status != _FINE:
        raise failure(status, _parsed_error(reply), hint, now_ms)
    wait = _seconds(hint, now_ms)
    answer = _parsed(reply, wait)
    if isinstance(answer, dict) and answer.get("success") is False:
        raise failure(status, answer, hint, now_ms)
    entries = answer.get("result") if isinstance(answer, dict) else answer
    if not isinstance(entries, list) or not entries or not all(map(_is_entry, entries)):
        raise ModelAway("Workers AI answered without a list of labels.", retry_after=wait)
    found = sorted(map(_entry, entries), key=lambda entry: entry[1], reverse=True)
    return tuple(found[:MOST_LABELS])


def failure(status: int, answer: Any, hint: str | None, now_ms: int) -> ModelError:
    """The error that a refusal stands for."""
    code, words = _first_error(answer)
    problem = f"Workers AI answered {status}" + (f" ({code})" if code else "")
    problem += f": {words}" if words else "."
    if code == ALLOWANCE_SPENT:
        return ModelAway(problem, retry_after=_until_tomorrow(now_ms))
    if status in _OF_THE_IMAGE and code != NO_CAPACITY:
        return ModelError(problem)
    cure = f" {_CURES[status]}" if status in _CURES else ""
    return ModelAway(f"{problem}{cure}", retry_after=_seconds(hint, now_ms))


def _parsed_error(reply: bytes) -> Any:
    """A refusal counts even when its body makes no sense."""
    try:
        return _parsed(reply)
    except ModelError:
        return None


def _parsed(reply: bytes, wait: float | None = None) -> Any:
    try:
        return json.loads(reply)
    except (ValueError, RecursionError):
        raise ModelAway("Workers AI's answer is not JSON.", retry_after=wait) from None


def _is_entry(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("label"), str):
        return False
    score = item.get("score")
    return isinstance(score, int | float) and not isinstance(score, bool)


def _entry(item: dict[str, Any]) -> tuple[str, float]:
    name, score = label_of(item["label"]), item["score"]
    if not name or len(name) > MAX_LABEL or not name.isprintable():
        raise ModelError("Workers AI's answer holds an unusable label.")
    if not math.isfinite(score) or not 0 <= score <= 1:
        raise ModelError("Workers AI's answer holds a score outside 0 to 1.")
    return name, float(score)


def _first_error(answer: Any) -> tuple[int | None, str]:
    """Workers AI lists its errors under `errors`, the gateway at times under `error`."""
    if not isinstance(answer, dict):
        return None, ""
    listed = answer.get("errors") or answer.get("error")
    first = listed[0] if isinstance(listed, list) and listed else listed
    if not isinstance(first, dict):
        return None, _words(first)
    code = first.get("code")
    return code if isinstance(code, int) else None, _words(first.get("message"))


def _words(text: Any) -> str:
    """A vendor's words end up in our history: short, and on one line."""
    return " ".join(text.split())[:200] if isinstance(text, str) else ""


def _seconds(hint: str | None, now_ms: int) -> float | None:
    """Retry-After: seconds, or a date."""
    if hint is None:
        return None
    try:
        wait = float(hint) if hint.isdigit() else _seconds_until(hint, now_ms)
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0.0), _LONGEST_WAIT)


def _seconds_until(date: str, now_ms: int) -> float:
    moment = parsedate_to_datetime(date)
    return moment.timestamp() - now_ms / 1000


def _until_tomorrow(now_ms: int) -> float:
    """The allowance is renewed at midnight UTC; a minute later is safe."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return (midnight - now).total_seconds() + 60
