"""The world ends before each statement of quotas: nothing is half set, and nothing counted twice."""

from pathlib import Path

import pytest

from inprocess import application
from points import points_of
from safelight.infra import failpoints
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.quotas import repo
from safelight.quotas.admit import order
from safelight.quotas.lifecycle import Meter
from safelight.quotas.limits import QuotaLimits, declare
from safelight.settings import load
from safelight.testing.injected import Watch

ACTOR = {"type": "user", "name": "ada"}


@pytest.mark.parametrize("point", points_of("quotas."))
async def test_a_death_anywhere_changes_nothing_for_good(database: Database, point: str) -> None:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    await database.execute("SELECT quota_change('acme', 5)")
    clock = Watch()
    units = Units(database, Bus(database, "here"), clock)
    armed = failpoints.arm(point, "raise@1")

    async def a_day() -> None:
        await declare(database, load({"quota_uploads_per_minute": 9}))
        await QuotaLimits(units).change("acme", {Meter.GENERATIONS: 8}, ACTOR)
        async with units.open("acme") as unit:
            await order(unit, Meter.GENERATIONS, 3)
        await repo.fold(database)

    with pytest.raises(FailpointError):
        await a_day()
    assert armed.passes, "the work never came by"
    before = await database.fetchval("SELECT count(*) FROM activity")
    done_before = point == "quotas.fold"  # the order was committed by then
    await a_day()
    found = {q.meter: q for q in await repo.quotas(database, "acme", clock.now_ms())}
    assert found[Meter.UPLOADS].most == 9
    assert found[Meter.GENERATIONS].most == 8
    assert found[Meter.GENERATIONS].used == (6 if done_before else 3)
    assert found[Meter.STORED_BYTES].used == 5
    assert await database.fetchval("SELECT count(*) FROM activity") == before + 1


async def test_a_start_that_died_before_its_limits_were_known(
    database_url: str, tmp_path: Path
) -> None:
    failpoints.arm("quotas.put_limits", "raise@1")
    with pytest.raises(FailpointError):
        async with application(database_url, tmp_path):
            pass
    async with application(database_url, tmp_path, quota_submissions_per_day=4) as app:
        assert await app.db.fetchval("SELECT quota_most('acme', 'submissions_per_day')") == 4
