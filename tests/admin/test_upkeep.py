"""Upkeep removes what has had its time, and nothing else."""

from safelight.admin.services import Upkeep
from safelight.infra import activity, kv
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.history import Line

DAY = 86_400_000
NOW = 100 * DAY


class At:
    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return 0.0


async def test_what_goes_and_what_stays(database: Database) -> None:
    await kv.put(database, "old", 1, now=0, ttl_ms=DAY)
    await kv.put(database, "new", 1, now=NOW, ttl_ms=DAY)
    for at in (NOW - 31 * DAY, NOW - 29 * DAY):
        async with Units(database, Bus(database, "test"), At(at)).open("acme") as unit:
            unit.tell(Line("image:1", "x"))
    seqs = [row.seq for row in await activity.feed(database, "acme", after=0, limit=9, types=None)]
    for name, buried in (("old", NOW - 31 * DAY), ("new", NOW - 29 * DAY)):
        await database.execute(
            "INSERT INTO tombstones VALUES ('acme', $1, 0, NULL, 'safelight', $2)", name, buried
        )
    await Upkeep(database, At()).run()
    await Upkeep(database, At()).run()
    assert [row["key"] for row in await database.fetch("SELECT key FROM kv")] == ["new"]
    assert await activity.bounds(database, "acme") == (seqs[0], seqs[1])
    rows = await database.fetch("SELECT name FROM tombstones")
    assert [row["name"] for row in rows] == ["new"]
    story = await activity.of_subject(database, "acme", "image:1", after=0, limit=10)
    assert len(story) == 2
