"""How often, and for how long, processing failed: a bucket per hour and class, for 48 hours.

`tm:{hour}:{class}` is added to in one statement, so no update is lost, and read by its key: nothing
is ever computed by looking through submissions.
"""

from collections.abc import Iterable
from typing import Any

from safelight.infra import kv
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import iso
from safelight.submissions import repo
from safelight.submissions.failures import FailureClass
from safelight.submissions.moments import HOUR_MS, hour_of

TTL_MS = 48 * HOUR_MS


def key(hour: int, classification: FailureClass) -> str:
    return f"tm:{iso(hour)[:13]}:{classification}"


async def record_timeout(
    connection: Connection, classification: FailureClass, duration_ms: int, now: int
) -> None:
    hour = hour_of(now)
    name = key(hour, classification)
    empty = {"hour": iso(hour), "classification": classification, "count": 0, "totalDurationMs": 0}
    await reach("submissions.open_bucket")
    await kv.compare_and_set(connection, name, None, empty, now=now, ttl_ms=TTL_MS)
    added = {"count": 1, "totalDurationMs": max(duration_ms, 0)}
    await reach("submissions.count")
    await kv.increment(connection, name, added, now=now, ttl_ms=TTL_MS)


async def timeouts(db: Database, now: int, hours: int = 24) -> dict[str, Any]:
    """The last hours, the present one included: only those, and those classes, that occurred."""
    wanted = [hour_of(now) - back * HOUR_MS for back in range(hours)]
    keys = [key(hour, kind) for hour in wanted for kind in FailureClass]
    found = await repo.values(db, keys, now)
    rows = sorted(found, key=lambda row: (row["hour"], row["classification"]))
    return {"hours": rows, "totals": _totals(rows)}


def _totals(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    totals: dict[str, dict[str, int]] = {}
    for row in rows:
        total = totals.setdefault(row["classification"], {"count": 0, "totalDurationMs": 0})
        total["count"] += row["count"]
        total["totalDurationMs"] += row["totalDurationMs"]
    return totals
