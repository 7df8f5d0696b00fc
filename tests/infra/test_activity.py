"""The feed and its floor. How history is written is in test_units.py."""

import itertools

import pytest

from infra.queue.crew import a_queue
from points import points_of
from safelight.infra import activity, failpoints, feed
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.history import Line
from safelight.testing.injected import Watch


@pytest.mark.parametrize("point", points_of("feed."))
async def test_a_feed_that_could_not_be_cut_is_cut_next_time(
    database: Database, point: str
) -> None:
    watch = Watch()
    units = Units(database, a_queue(database).bus, watch)
    async with units.open("acme") as unit:
        unit.tell(Line("thing:1", "old"))
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await feed.cut(database, watch.move(days=1))
    assert (await feed.bounds(database, "acme"))[0] == 0
    await feed.cut(database, watch.now_ms())
    floor, newest = await feed.bounds(database, "acme")
    assert floor == newest > 0
    story = await activity.of_subject(database, "acme", "thing:1", after=0, limit=9)
    assert [line.type for line in story] == ["old"]


async def test_what_was_told_of_one_thing(database: Database) -> None:
    units = Units(database, a_queue(database).bus, Watch())
    for organization, subject, kind in (
        ("acme", "thing:1", "odd"),
        ("acme", "thing:1", "odd"),
        ("acme", "thing:1", "even"),
        ("acme", "thing:2", "odd"),
        ("globex", "thing:1", "odd"),
    ):
        async with units.open(organization) as unit:
            unit.tell(Line(subject, kind, {"of": f"{organization} {subject} {kind}"}))
    told = await activity.told(database, "acme", "thing:1", "odd")
    assert told == [{"of": "acme thing:1 odd"}]


async def test_a_feed_of_types_is_the_feed_without_the_others(database: Database) -> None:
    """However far apart its lines are; of the usual types, of rare ones, and of both."""
    await database.execute(
        """
        INSERT INTO activity (seq, organization, subject, type, at, data)
        SELECT n, CASE WHEN n % 3 = 0 THEN 'other' ELSE 'org' END, 'upload:a',
               CASE WHEN n % 50 = 1 THEN 'upload_failed' WHEN n % 70 = 2 THEN 'token_made'
                    WHEN n BETWEEN 300 AND 600 THEN 'event_received'
                    ELSE 'classification_updated' END, n, '{}'
        FROM generate_series(1, 1000) AS n
        """
    )
    rows = await feed.lines(database, "org", after=0, limit=1000, types=None)
    for types, after, limit in itertools.product(
        (["upload_failed"], ["token_made", "upload_failed"], ["event_received"], ["nothing"],
         ["classification_updated", "token_made"], ["event_received", "upload_failed"], []),
        (0, 1, 290, 640, 999, 1000),
        (1, 2, 10, 500),
    ):  # fmt: skip
        wanted = [row.seq for row in rows if row.type in types and row.seq > after][:limit]
        found = await feed.lines(database, "org", after=after, limit=limit, types=types)
        assert [row.seq for row in found] == wanted, (types, after, limit)
