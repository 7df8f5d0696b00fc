"""What an operator may do about a stuck submission, and what is left alone."""

import asyncio

import pytest

from safelight.errors import NotFound
from safelight.infra import failpoints
from safelight.submissions.recovery.by_hand import ByHand, NotStuck
from submissions.desk import ORG, PROCESS, Desk
from submissions.test_recovery import a_stuck_one

ADA = {"type": "user", "name": "ada"}


def hand(desk: Desk) -> ByHand:
    return ByHand(desk.recovery.units, desk.recovery.tempo)


async def test_trying_now_waits_for_no_pause_and_is_done_once(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    with pytest.raises(NotStuck, match="not stuck"):
        await hand(desk).try_now(submission, ADA)  # it has failed just now
    desk.clock.advance(minutes=5, seconds=1)
    assert await desk.recovery.run() == 1
    await desk.work()  # and fails again: the next try is five minutes away
    desk.clock.advance(minutes=4)
    assert await desk.recovery.run() == 0
    await hand(desk).try_now(submission, ADA)
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 2
    for verb in (hand(desk).try_now, hand(desk).give_up):
        with pytest.raises(NotStuck, match="in the queue"):
            await verb(submission, ADA)
    story = await desk.story(f"submission:{submission}")
    assert [data["actor"] for kind, data in story if kind == "submission_retried"][1:] == [ADA]
    desk.tools.trouble = None
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    with pytest.raises(NotStuck):
        await hand(desk).give_up(submission, ADA)


async def test_with_its_budget_spent_one_more_costs_nothing(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    for _ in range(3):
        assert await desk.recovery.run() == 1
        await desk.work()
        desk.clock.advance(minutes=20)
    await hand(desk).try_now(submission, ADA)
    budget = await desk.value(f"recovery:budget:{submission}")
    assert (budget["count"], budget["waits"]) == (3, 1)
    await desk.work()
    desk.clock.advance(minutes=21)
    assert await desk.recovery.run() == 1
    assert (await desk.see(submission))["rejection"]["code"] == "STUCK_EXHAUSTED"


async def test_giving_up_tells_that_nobody_is_to_blame(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    await hand(desk).give_up(submission, ADA)
    body = await desk.see(submission)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "STUCK_EXHAUSTED")
    assert "not your image's fault" in body["rejection"]["message"]
    assert await desk.jobs() == []
    with pytest.raises(NotFound):
        await hand(desk).give_up("sub_nothing", ADA)


async def test_beside_recovery_one_of_them_starts_it(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    armed = failpoints.arm("submissions.spend", "hold@1")
    first = asyncio.create_task(hand(desk).try_now(submission, ADA))
    await armed.passed()
    second = asyncio.create_task(desk.recovery.one(ORG, submission))
    failpoints.disarm("submissions.spend")
    await first
    assert await second is False
    assert [job["kind"] for job in await desk.jobs()] == [PROCESS]
