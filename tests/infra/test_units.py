"""Units of work: everything or nothing, history last, news only of what is true."""

import pytest

from infra.queue.crew import Number, a_kind, a_queue, rows
from points import points_of
from safelight.infra import activity, failpoints
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.history import Line
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import ACTIVITY, Done, Job, LeaseLost, Verdict
from safelight.testing.hands import Hands
from safelight.testing.injected import Watch
from safelight.testing.waiting import News, told_by

KIND = a_kind()


async def feed(db: Database, organization: str = "acme") -> list[str]:
    found = await activity.feed(db, organization, after=0, limit=100, types=None)
    return [line.type for line in found]


@pytest.mark.parametrize("point", [*points_of("unit."), "queue.enqueue"])
async def test_a_failure_anywhere_leaves_nothing(database: Database, point: str) -> None:
    queue = a_queue(database, [KIND])
    units = Units(database, queue.bus, Watch())

    async def change() -> None:
        async with units.open("acme") as unit:
            unit.tell(Line("thing:1", "changed"))
            await unit.enqueue(KIND, Number(1), key="1")

    failpoints.arm(point, "raise@1")
    with told_by(queue.bus, ACTIVITY) as told, told_by(queue.bus, "jobs") as jobs:
        with pytest.raises(FailpointError):
            await change()
        assert (await feed(database), await rows(database)) == ([], [])
        assert (told.details, jobs.details) == ([], [])
        await change()
        assert (told.details, jobs.details) == (["acme"], [KIND.name])
    assert await feed(database) == ["changed"]
    assert len(await rows(database)) == 1


async def test_a_job_that_is_somebody_elses_writes_nothing(database: Database) -> None:
    queue = a_queue(database, [KIND])
    units, news = Units(database, queue.bus, Watch()), News()

    async def handle(job: Job[Number]) -> Verdict:
        async with units.open("acme") as unit:
            unit.tell(Line("thing:1", "changed"))
            unit.ends(job)
        return Done(already=True)

    hands = Hands(queue, [Handler(KIND, handle)])
    await queue.enqueue(database, KIND, Number(1), organization="acme")
    late = await hands.lose(KIND.name)
    assert late
    queue.bus.subscribe(ACTIVITY, news.tell)
    with pytest.raises(LeaseLost):
        await handle(late)
    assert (await feed(database), news.details) == ([], [])
    assert await hands.work() == 1
    assert (await feed(database), news.details) == (["changed"], ["acme"])
    assert await rows(database) == []


@pytest.mark.parametrize("point", points_of("activity."))
async def test_a_feed_that_could_not_be_cut_is_cut_next_time(
    database: Database, point: str
) -> None:
    watch = Watch()
    units = Units(database, a_queue(database).bus, watch)
    async with units.open("acme") as unit:
        unit.tell(Line("thing:1", "old"))
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await activity.cut_feed(database, watch.move(days=1))
    assert (await activity.bounds(database, "acme"))[0] == 0
    await activity.cut_feed(database, watch.now_ms())
    floor, newest = await activity.bounds(database, "acme")
    assert floor == newest > 0
    story = await activity.of_subject(database, "acme", "thing:1", after=0, limit=9)
    assert [line.type for line in story] == ["old"]
