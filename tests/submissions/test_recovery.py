"""Recovery on real rows: days pass in milliseconds."""

import asyncio

import pytest

from infra.queue.crew import until
from safelight.accounts.access import Role
from safelight.classification.base import ModelError
from safelight.infra import failpoints
from safelight.infra.queue.jobs import Done, Verdict
from safelight.infra.queue.worker import Worker
from safelight.submissions.jobs import schedules
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import to_ms
from safelight.submissions.recovery.recover import stuck, timeouts
from safelight.submissions.repo import count_incident
from submissions.desk import ORG, PROCESS, Desk
from submissions.pictures import plain


async def a_stuck_one(desk: Desk, name: str = "cat.jpg") -> str:
    """Its run has failed; nothing in the queue works for it."""
    desk.tools.trouble = ModelError("no answer")
    submission = await desk.submit(name=name)
    await desk.work()
    return submission


async def failures(desk: Desk) -> int:
    found = await timeouts(desk.db, desk.clock.now_ms(), 48)
    return sum(row["count"] for row in found["hours"])


async def test_it_is_retried_after_five_minutes_and_not_before(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=5)
    assert await desk.recovery.run() == 0
    desk.clock.advance(seconds=1)
    assert await desk.recovery.run() == 1
    budget = await desk.value(f"recovery:budget:{submission}")
    assert budget["count"] == 1
    assert to_ms(budget["lastRetryAt"]) == desk.clock.ms
    assert to_ms(budget["nextRetryAfter"]) == desk.clock.ms + 5 * 60_000
    [job] = await desk.jobs()
    assert (job["status"], job["key"]) == ("queued", submission)
    desk.tools.trouble = None
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert await desk.value(f"recovery:budget:{submission}") is None


async def test_what_fails_and_what_is_tried_again_is_counted(desk: Desk) -> None:
    """By the queue, from the verdicts; a run that is handed back unharmed is neither."""

    async def verdict() -> Verdict:
        job = await desk.claim()
        assert job
        return await desk.handlers[PROCESS].handle(job)

    desk.tools.trouble = ModelError("no answer")
    await desk.submit()
    assert await verdict() == Done(already=True, failed=True)
    desk.clock.advance(minutes=6)
    assert await desk.recovery.run() == 1
    assert await verdict() == Done(already=True, failed=True, again=True)
    desk.tools.trouble = None
    desk.clock.advance(minutes=11)
    assert await desk.recovery.run() == 1
    assert await verdict() == Done(already=True, again=True)
    await desk.submit(plain("red"), "red.png", "image/png")
    assert await verdict() == Done(already=True)


async def test_a_clock_that_was_ahead_keeps_nothing_stuck(desk: Desk) -> None:
    """It failed while the clock was a month ahead; then the clock was set right."""
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=5, seconds=1)
    assert await desk.recovery.run() == 1
    await desk.work()  # and fails again
    desk.clock.advance(minutes=-31 * 24 * 60)
    desk.tools.trouble = None
    assert await desk.recovery.run() == 1
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_exactly_three_retries_then_it_is_given_up(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=5, seconds=1)
    for count, wait in ((1, 5), (2, 10), (3, 20)):
        assert await desk.recovery.run() == 1
        assert (await desk.value(f"recovery:budget:{submission}"))["count"] == count
        assert await desk.work() == 1  # and fails again
        desk.clock.advance(minutes=wait, seconds=-1)
        assert await desk.recovery.run() == 0
        desk.clock.advance(seconds=1)
    assert (await desk.see(submission))["state"] == "TIER2_SCANNING"
    assert await desk.recovery.run() == 1
    body = await desk.see(submission)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "STUCK_EXHAUSTED")
    assert "submit it again" in body["rejection"]["message"]
    assert await desk.jobs() == []
    assert await failures(desk) == 4  # one for each run, and none for giving up
    for key in (f"inflight:{submission}", f"recovery:budget:{submission}"):
        assert await desk.value(key) is None
    assert await desk.recovery.run() == 0


async def test_an_old_marker_counts_as_one(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    await desk.put_value(f"recovery:retried:{submission}", {"at": "2026-01-01T00:00:00Z"})
    desk.clock.advance(minutes=6)
    retries = 0
    while (await desk.see(submission))["state"] != "REJECTED":
        retries += len(await desk.jobs())
        await desk.work()
        desk.clock.advance(minutes=20)
        await desk.recovery.run()
    assert retries == 2
    assert await desk.value(f"recovery:retried:{submission}") is None


async def test_a_budget_lasts_a_day_from_the_last_retry(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    await desk.recovery.run()
    await desk.work()
    desk.clock.advance(hours=23, minutes=59)
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 1
    desk.clock.advance(minutes=1)
    assert await desk.value(f"recovery:budget:{submission}") is None
    await desk.recovery.run()
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 1


async def test_two_recoveries_at_once_spend_one_retry(desk: Desk) -> None:
    for number in range(5):
        submission = await a_stuck_one(desk, f"{number}.jpg")
        desk.clock.advance(minutes=6)
        dealt = await asyncio.gather(*(desk.recovery.one(ORG, submission) for _ in range(4)))
        assert sorted(dealt) == [False, False, False, True]
        assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 1
        assert len(await desk.jobs()) == 1
        await desk.work()
    ran = await asyncio.gather(desk.recovery.run(), desk.recovery.run())
    assert min(ran) == 0


async def test_one_process_looks_at_a_time(desk: Desk) -> None:
    await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    async with desk.db.transaction() as connection:
        await connection.execute("SELECT recovery_try_lock()")
        assert await desk.recovery.run() == 0
    assert await desk.recovery.run() == 1


@pytest.mark.parametrize(
    "point",
    ["submissions.spend", "kv.compare_and_set", "queue.enqueue", "unit.close"],
)
async def test_killed_half_way_it_has_done_nothing_yet(desk: Desk, point: str) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    failpoints.arm(point, "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await desk.recovery.run()
    assert await desk.value(f"recovery:budget:{submission}") is None
    assert await desk.jobs() == []
    assert await desk.recovery.run() == 1
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 1
    assert len(await desk.jobs()) == 1


async def test_killed_between_two_it_goes_on_with_the_second(desk: Desk) -> None:
    for number in range(3):
        await a_stuck_one(desk, f"{number}.jpg")
    desk.clock.advance(minutes=6)
    failpoints.arm("submissions.spend", "raise@2")
    with pytest.raises(failpoints.FailpointError):
        await desk.recovery.run()
    assert len(await desk.jobs()) == 1
    assert await desk.recovery.run() == 2
    assert len(await desk.jobs()) == 3


async def test_a_backlog_is_not_stuck(desk: Desk) -> None:
    """A thousand wait for an hour; none is retried, none rejected, and all are told to be waiting."""
    await desk.submit(plain("red"), "one.png", "image/png")
    await desk.db.execute(
        """
        WITH more AS (
            INSERT INTO submissions
            SELECT (jsonb_populate_record(s, jsonb_build_object('id', 'sub_' || n))).*
            FROM submissions s CROSS JOIN generate_series(1, 999) AS n RETURNING id
        )
        SELECT job_enqueue('submissions.process', 'acme',
                           jsonb_build_object('submissionId', id), id) FROM more
        """
    )
    for _ in range(12):
        desk.clock.advance(minutes=5)
        assert await desk.recovery.run() == 0
    states = await desk.db.fetch("SELECT state, count(*) FROM submissions GROUP BY state")
    assert [tuple(row) for row in states] == [("RECEIVED", 1000)]
    assert await desk.db.fetchval("SELECT count(*) FROM kv") == 0
    assert await stuck(desk.db, desk.clock.now_ms(), desk.process.tempo) == []
    body = await desk.see("sub_7")
    assert body["staleness"]["staleStage"] == "RECEIVED"
    assert "Work on it goes on" in body["staleness"]["message"]


async def test_a_delayed_or_running_job_is_waiting_too(desk: Desk) -> None:
    submission = await desk.submit()
    desk.clock.advance(minutes=30)
    for change in (
        "status = 'delayed'",
        "status = 'running', owner = 'somebody', lease_until = now()",
    ):
        await desk.db.execute(f"UPDATE jobs SET {change} WHERE kind = $1", PROCESS)
        assert await desk.recovery.one(ORG, submission) is False
    dead = "status = 'dead', owner = NULL, lease_until = NULL, died_at = now()"
    await desk.db.execute(f"UPDATE jobs SET {dead} WHERE kind = $1", PROCESS)
    assert await desk.recovery.one(ORG, submission) is True


async def test_a_slow_scan_is_left_alone(desk: Desk) -> None:
    submission = await desk.submit()
    job = await desk.claim()
    assert job
    desk.clock.advance(minutes=20)
    assert await desk.recovery.run() == 0
    await desk.finish(job, await desk.handlers[PROCESS].handle(job))
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_a_submission_that_waits_for_a_person_is_left_alone(desk: Desk) -> None:
    desk.tools.score = 0.6
    submission = await desk.submit()
    await desk.work()
    desk.clock.advance(days=6)
    assert await desk.recovery.run() == 0
    body = await desk.see(submission)
    assert (body["state"], "staleness" in body) == ("AWAITING_APPROVAL", False)


async def test_a_job_that_was_lost_is_found_within_ten_minutes(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.db.execute("DELETE FROM jobs")
    desk.clock.advance(minutes=5, seconds=1)
    assert await desk.recovery.run() == 1
    assert await desk.work() == 1
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    found = await timeouts(desk.db, desk.clock.now_ms())
    assert found["totals"] == {"UNKNOWN": {"count": 1, "totalDurationMs": 301_000}}


async def test_what_no_claim_saw_is_counted_by_recovery_once(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.worker_dies()
    await desk.db.execute("DELETE FROM jobs")
    desk.clock.advance(minutes=6)
    assert await desk.recovery.run() == 1
    found = await timeouts(desk.db, desk.clock.now_ms())
    assert found["totals"] == {"SCAN_TIMEOUT": {"count": 1, "totalDurationMs": 360_000}}
    await desk.work()
    assert await failures(desk) == 1
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_the_schedule_does_it_by_itself(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.tools.trouble = None
    desk.clock.advance(minutes=6)
    often = schedules(desk.settings.model_copy(update={"recovery_interval_seconds": 1}))
    assert [(one.kind.name, one.every) for one in schedules(desk.settings)] == [
        ("submissions.recover", 300)
    ]
    await desk.bus.start()
    worker = Worker(desk.queue, list(desk.handlers.values()), often)
    await worker.start()
    try:
        await until(lambda: published(desk, submission), 20)
    finally:
        await worker.stop(5)
        await desk.bus.stop()


async def published(desk: Desk, submission: str) -> bool:
    return bool((await desk.see(submission))["state"] == "PUBLISHED")


# What people see of it


async def test_the_banner_comes_stays_through_a_retry_and_goes(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    since = desk.clock.ms
    desk.clock.advance(minutes=3)
    assert "staleness" not in await desk.see(submission)
    desk.clock.advance(seconds=1)
    stale = (await desk.see(submission))["staleness"]
    assert stale["stale"] is True
    assert (stale["staleStage"], to_ms(stale["staleSince"])) == ("TIER2_SCANNING", since)
    assert to_ms(stale["nextAttemptAt"]) > desk.clock.ms
    desk.clock.ms = to_ms(stale["nextAttemptAt"])
    assert await desk.recovery.run() == 1
    stale = (await desk.see(submission))["staleness"]
    assert (to_ms(stale["staleSince"]), stale["nextAttemptAt"]) == (since, None)
    await desk.work()
    assert to_ms((await desk.see(submission))["staleness"]["staleSince"]) == since
    desk.tools.trouble = None
    desk.clock.advance(minutes=10)
    await desk.recovery.run()
    await desk.work()
    assert "staleness" not in await desk.see(submission)


async def test_the_operator_sees_what_is_stuck_and_why(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    now = desk.clock.now_ms
    assert await stuck(desk.db, now(), desk.process.tempo) == []
    desk.clock.advance(minutes=7)
    [row] = await stuck(desk.db, now(), desk.process.tempo)
    assert row.to_json() == {
        "submissionId": submission, "state": "TIER2_SCANNING", "stage": "TIER2_SCANNING",
        "stuckForMs": 420_000, "classification": "MODEL_ERROR", "away": False,
        "attempt": 1, "nextRetryAfter": None,
    }  # fmt: skip
    await desk.recovery.run()
    assert await stuck(desk.db, now(), desk.process.tempo) == []
    await desk.work()
    [row] = await stuck(desk.db, now(), desk.process.tempo)
    assert row.attempt == 2
    assert row.next_retry_after == now() + 300_000


async def test_buckets_by_the_hour(desk: Desk) -> None:
    async def fail(kind: FailureClass, duration: int) -> None:
        async with desk.db.transaction() as connection:
            await count_incident(connection, kind, duration, desk.clock.now_ms())

    start = desk.clock.ms
    await asyncio.gather(*(fail(FailureClass.SCAN_TIMEOUT, 1000) for _ in range(20)))
    await fail(FailureClass.MODEL_ERROR, 7)
    desk.clock.advance(hours=1)
    await fail(FailureClass.SCAN_TIMEOUT, 5)
    found = await timeouts(desk.db, desk.clock.now_ms())
    assert [
        (to_ms(r["hour"]), r["classification"], r["count"], r["totalDurationMs"])
        for r in found["hours"]
    ] == [
        (start, "MODEL_ERROR", 1, 7),
        (start, "SCAN_TIMEOUT", 20, 20_000),
        (start + 3_600_000, "SCAN_TIMEOUT", 1, 5),
    ]
    assert found["totals"] == {
        "MODEL_ERROR": {"count": 1, "totalDurationMs": 7},
        "SCAN_TIMEOUT": {"count": 21, "totalDurationMs": 20_005},
    }
    desk.clock.ms = start + 24 * 3_600_000
    assert [row["count"] for row in (await timeouts(desk.db, desk.clock.now_ms()))["hours"]] == [1]
    assert len((await timeouts(desk.db, desk.clock.now_ms(), 48))["hours"]) == 3
    desk.clock.ms = start + 48 * 3_600_000
    assert len((await timeouts(desk.db, desk.clock.now_ms(), 72))["hours"]) == 1


async def test_a_retry_is_told(desk: Desk) -> None:
    submission = await a_stuck_one(desk)
    desk.clock.advance(minutes=6)
    await desk.recovery.run()
    async with await desk.as_role(Role.VIEWER) as client:
        page = (await client.get(f"/api/v1/submissions/{submission}/history")).json()
    last = page["items"][-1]
    assert (last["type"], last["attempt"]) == ("submission_retried", 1)
    assert ORG == "acme"
