"""Upkeep removes what has had its time, and nothing else."""

import pytest

from safelight.admin.services import Upkeep
from safelight.infra import activity, failpoints, feed, kv
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.history import Line
from safelight.testing.injected import Watch

DAY = 86_400_000
NOW = 100 * DAY
TOMBSTONES = "library.purge_tombstones"


class At:
    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.parametrize("point", [None, "kv.sweep", "feed.cut", TOMBSTONES])
async def test_what_goes_and_what_stays(database: Database, point: str | None) -> None:
    """Also after a death half-way."""
    await kv.put(database, "old", 1, now=0, ttl_ms=DAY)
    await kv.put(database, "new", 1, now=NOW, ttl_ms=DAY)
    for at in (NOW - 31 * DAY, NOW - 29 * DAY):
        async with Units(database, Bus(database, "test"), At(at)).open("acme") as unit:
            unit.tell(Line("image:1", "x"))
    seqs = [row.seq for row in await feed.lines(database, "acme", after=0, limit=9, types=None)]
    for name, buried in (("old", NOW - 31 * DAY), ("new", NOW - 29 * DAY)):
        await database.execute(
            "INSERT INTO tombstones VALUES ('acme', $1, 0, NULL, 'safelight', $2)", name, buried
        )
    if point:
        failpoints.arm(point, "raise@1")
        with pytest.raises(FailpointError):
            await Upkeep(database, At()).run()
    await Upkeep(database, At()).run()
    await Upkeep(database, At()).run()
    kept = await database.fetch("SELECT key FROM kv WHERE expires_at IS NOT NULL")
    assert [row["key"] for row in kept] == ["new"]
    assert await feed.bounds(database, "acme") == (seqs[0], seqs[1])
    rows = await database.fetch("SELECT name FROM tombstones")
    assert [row["name"] for row in rows] == ["new"]
    story = await activity.of_subject(database, "acme", "image:1", after=0, limit=10)
    assert len(story) == 2


async def test_a_clock_a_month_ahead_for_an_hour_forgets_nothing(database: Database) -> None:
    """Neither the feed nor what keeps a deleted name away; and what is due goes later all the same."""
    now = await database.fetchval("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    watch = Watch(now - 10 * DAY)
    async with Units(database, Bus(database, "test"), watch).open("acme") as unit:
        unit.tell(Line("image:1", "x"))
    bury = "INSERT INTO tombstones VALUES ('acme', $1, 0, NULL, 'safelight', $2)"
    await database.execute(bury, "kept", now - 10 * DAY)
    await kv.put(database, "promise", 1, now=now, ttl_ms=DAY)
    housekeeping = Upkeep(database, watch)
    watch.ms = now
    await housekeeping.run()
    watch.move(days=31)
    for _ in range(3):
        await housekeeping.run()
        watch.move(seconds=1800)
    watch.move(days=-31)
    await database.execute(bury, "due", now - 31 * DAY)
    await housekeeping.run()
    floor, newest = await feed.bounds(database, "acme")
    assert (floor, newest > 0) == (0, True)
    rows = await database.fetch("SELECT name FROM tombstones")
    assert [row["name"] for row in rows] == ["kept"]
    assert await kv.get(database, "promise", now=watch.ms) == 1
