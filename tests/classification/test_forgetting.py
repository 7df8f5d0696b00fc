"""Runs are forgotten when nobody can ask for them any more."""

import pytest

from safelight.classification.forgetting import Forgetting
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.testing.injected import Watch

DAY = 86_400_000


async def add(db: Database, name: str, marker: str, run: int, status: str, ended: int) -> None:
    await db.execute(
        "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, "
        "started_at, finished_at) VALUES ('acme', $1, $2, $3, $4, $5, $5)",
        name, marker, run, status, ended,
    )  # fmt: skip


@pytest.mark.parametrize(("at_a_time", "dies"), [(1, False), (3, True), (100, False)])
async def test_what_is_forgotten(database: Database, at_a_time: int, dies: bool) -> None:
    watch = Watch()
    now = await database.fetchval("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    watch.ms = now
    old, new = now - 31 * DAY, now - 29 * DAY
    await database.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key) "
        "VALUES ('acme', 'a', 1, 'safelight', 'mine')"
    )
    await add(database, "a", "before", 1, "dropped", old)
    await add(database, "a", "mine", 1, "failed", old)
    await add(database, "a", "mine", 2, "done", old)
    await add(database, "b", "x", 1, "done", old)
    await add(database, "b", "x", 2, "pending", old)
    await add(database, "b", "y", 1, "done", new)
    await add(database, "c", "z", 1, "failed", old)
    forgetting = Forgetting(database, watch, at_a_time)
    if dies:
        failpoints.arm("classification.forget_runs", "raise@1")
        with pytest.raises(FailpointError):
            await forgetting.run()
    await forgetting.run()
    rows = await database.fetch("SELECT idempotency_key AS key, run FROM classification_runs")
    kept = sorted((row["key"], row["run"]) for row in rows)
    assert kept == [("mine", 1), ("mine", 2), ("x", 2), ("y", 1)]
