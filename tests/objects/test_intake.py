"""A store's news is taken in whole or not at all."""

from typing import Any

import pytest

from objects import notification_samples as sample
from objects.stores import Watch, deliveries, units_of
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.objects.notifications.intake import Intake, IntakeCounts

UNREADABLE = {"colour": "red"}


def news() -> list[Any]:
    """One record of an organization there is, and one thing nobody can read."""
    body = sample.minio()
    body["Records"][0]["s3"]["object"]["key"] = "acme%2Fcat.jpg"
    return [body, UNREADABLE]


async def rows(db: Database) -> tuple[int, int, int]:
    row = await db.fetchrow(
        "SELECT (SELECT count(*) FROM object_events), (SELECT count(*) FROM rejected_notices), "
        "(SELECT count(*) FROM jobs)"
    )
    assert row
    return tuple(row)


@pytest.mark.parametrize(
    "point", ["objects.notifications.add_events", "objects.notifications.add_rejected"]
)
async def test_cut_off_nothing_is_kept_and_the_sender_tries_again(
    database: Database, point: str
) -> None:
    await database.execute("DELETE FROM rejected_notices")
    intake = Intake(units_of(database, Watch()))
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await intake.take(news())
    assert await rows(database) == (0, 0, 0)
    assert await intake.take(news()) == IntakeCounts(accepted=1, ignored=0, rejected=1)
    assert await rows(database) == (1, 1, 2)
    [delivery] = await deliveries(database)
    assert delivery["name"] == "cat.jpg"


async def test_a_neighbours_bucket_and_unknown_organizations_are_ignored(
    database: Database,
) -> None:
    body = news()[0]
    other = Intake(units_of(database, Watch()), bucket="another")
    assert await other.take(body) == IntakeCounts(accepted=0, ignored=1, rejected=0)
    body["Records"][0]["s3"]["object"]["key"] = "nobody%2Fcat.jpg"
    intake = Intake(units_of(database, Watch()))
    assert await intake.take(body) == IntakeCounts(accepted=0, ignored=1, rejected=0)
    assert await deliveries(database) == []
