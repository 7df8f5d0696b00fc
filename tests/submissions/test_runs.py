"""One run: its inflight record, its failures, its deaths, and what a run that lost its job may do."""

import asyncio

import pytest

from safelight.classification.base import ModelError
from safelight.infra import failpoints, kv
from safelight.infra.queue.jobs import Done, Failure, LeaseLost
from safelight.submissions.recovery.records import to_ms
from submissions.desk import PROCESS, Desk
from submissions.limits import HandLimit
from submissions.pictures import photo

HOUR_MS = 3_600_000


async def counts(desk: Desk) -> dict[str, tuple[int, int]]:
    """Per class: how many, and how long altogether."""
    rows = await desk.db.fetch("SELECT value FROM kv WHERE key ~ '^tm:'")
    return {
        row["value"]["classification"]: (row["value"]["count"], row["value"]["totalDurationMs"])
        for row in rows
    }


async def test_the_inflight_record_comes_first_and_goes_last(desk: Desk) -> None:
    submission = await desk.submit()
    key = f"inflight:{submission}"
    assert await desk.value(key) is None
    job = await desk.claim()
    assert job
    run = await desk.process.runs.begin(job)
    assert run
    record = await desk.value(key)
    assert record["stage"] == "RECEIVED"
    assert (record["submissionId"], record["attempt"]) == (submission, 1)
    assert to_ms(record["startedAt"]) == to_ms(record["stageStartedAt"]) == desk.clock.ms
    assert (await desk.see(submission))["state"] == "RECEIVED"
    for stage in ("TIER1_SCANNING", "TIER2_SCANNING"):
        desk.clock.advance(seconds=7)
        run = await desk.process.runs.enter(run, type(run.submission.state)(stage), {})
        record = await desk.value(key)
        assert (record["stage"], to_ms(record["stageStartedAt"])) == (stage, desk.clock.ms)
        assert to_ms(record["startedAt"]) < desk.clock.ms
    await desk.process._tier2(run)
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert await desk.value(key) is None
    assert await desk.jobs() == []


async def test_records_expire_after_an_hour(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.worker_dies()
    desk.clock.advance(minutes=59)
    assert await desk.value(f"inflight:{submission}")
    desk.clock.advance(minutes=1)
    assert await desk.value(f"inflight:{submission}") is None


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (ModelError("no answer"), "MODEL_ERROR"),
        (ConnectionResetError("gone"), "NETWORK_ERROR"),
        (OSError(28, "No space left on device"), "STORAGE_ERROR"),
        (TimeoutError(), "SCAN_TIMEOUT"),
        (ZeroDivisionError("what"), "UNKNOWN"),
    ],
)
async def test_a_run_that_fails_is_classified_counted_and_over(
    desk: Desk, trouble: BaseException, kind: str
) -> None:
    desk.tools.trouble = trouble
    submission = await desk.submit()
    await desk.work()
    assert await desk.jobs() == []
    record = await desk.value(f"inflight:{submission}")
    assert record["error"]["classification"] == kind
    assert record["error"]["message"]
    assert {name: count for name, (count, _) in (await counts(desk)).items()} == {kind: 1}
    body = await desk.see(submission)
    assert (body["state"], "rejection" in body) == ("TIER2_SCANNING", False)
    [attempt] = [d for t, d in await desk.story(f"submission:{submission}") if t == "run_attempt"]
    assert (attempt["attempt"], attempt["error"]["code"]) == (1, kind)


async def test_the_whole_of_it_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scanner that hangs."""
    submission = await desk.submit()
    limit = HandLimit(desk, monkeypatch)
    armed = failpoints.arm("submissions.tier2", "hang")
    job = await desk.claim()
    assert job
    running = asyncio.create_task(limit.process.handle(job))
    await armed.passed(seconds=60)
    limit.reach()
    assert await running == Done(already=True, failed=True)
    record = await desk.value(f"inflight:{submission}")
    assert (record["error"]["classification"], record["stage"]) == (
        "SCAN_TIMEOUT",
        "TIER2_SCANNING",
    )
    assert await desk.jobs() == []


async def test_durations_are_those_of_the_run(desk: Desk) -> None:
    submission = await desk.submit()
    job = await desk.claim()
    assert job
    run = await desk.process.runs.begin(job)
    assert run
    desk.clock.advance(seconds=40)
    await desk.process.runs.fail(run, TimeoutError())
    assert await counts(desk) == {"SCAN_TIMEOUT": (1, 40_000)}
    assert (await desk.value(f"inflight:{submission}"))["error"]["classification"] == "SCAN_TIMEOUT"


async def test_a_dead_worker_is_found_by_the_next_claim_and_counted_once(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.worker_dies()
    desk.clock.advance(seconds=12)
    assert await counts(desk) == {}
    await desk.work()
    assert await counts(desk) == {"SCAN_TIMEOUT": (1, 12_000)}
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert await desk.value(f"recovery:budget:{submission}") is None
    attempts = [d for t, d in await desk.story(f"submission:{submission}") if t == "run_attempt"]
    assert [data["error"]["code"] for data in attempts] == ["SCAN_TIMEOUT"]


async def test_attempts_are_numbered(desk: Desk) -> None:
    submission = await desk.submit()
    for number in (1, 2):
        await desk.worker_dies()
        assert (await desk.value(f"inflight:{submission}"))["attempt"] == number
    desk.tools.trouble = ModelError("no")
    await desk.work()
    assert (await desk.value(f"inflight:{submission}"))["attempt"] == 3


async def test_the_last_death_is_counted_where_the_job_is_buried(desk: Desk) -> None:
    submission = await desk.submit()
    for _ in range(3):
        job = await desk.worker_dies()
    await desk.bury((await desk.claim()) or job, Failure("WORKER_DIED", "It died."))
    assert {name: count for name, (count, _) in (await counts(desk)).items()} == {"SCAN_TIMEOUT": 3}
    record = await desk.value(f"inflight:{submission}")
    assert record["error"]["classification"] == "SCAN_TIMEOUT"
    desk.clock.advance(minutes=6)
    assert await desk.recovery.run() == 1
    assert {name: count for name, (count, _) in (await counts(desk)).items()} == {"SCAN_TIMEOUT": 3}
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_stopping_a_worker_is_no_incident(desk: Desk) -> None:
    submission = await desk.submit()
    failpoints.arm("submissions.tier1", "hang")
    job = await desk.claim()
    assert job
    running = asyncio.create_task(desk.process.handle(job))
    while not await desk.value(f"inflight:{submission}"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    failpoints.disarm()
    assert await desk.value(f"inflight:{submission}") is None
    await desk.take_over()
    await desk.work()
    assert await counts(desk) == {}
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_a_run_that_lost_its_job_changes_nothing(desk: Desk) -> None:
    """A worker that was only slow comes back after another has taken over."""
    submission = await desk.submit()
    late = await desk.claim()
    assert late
    runs = desk.process.runs
    slow = await runs.begin(late)
    assert slow
    await desk.take_over()
    quick = await desk.claim()
    assert quick
    assert await runs.begin(quick)
    before = await desk.value(f"inflight:{submission}")
    tier1 = type(slow.submission.state)("TIER1_SCANNING")
    with pytest.raises(LeaseLost):
        await runs.enter(slow, tier1, {})
    with pytest.raises(LeaseLost):
        await runs.fail(slow, TimeoutError())
    with pytest.raises(LeaseLost):
        await runs.hand_back(slow)
    assert await desk.value(f"inflight:{submission}") == before
    assert (await desk.see(submission))["state"] == "RECEIVED"


async def test_an_inflight_record_that_expires_meanwhile_decides_nothing(desk: Desk) -> None:
    submission = await desk.submit()
    job = await desk.claim()
    assert job
    run = await desk.process.runs.begin(job)
    assert run
    await kv.delete(desk.db, f"inflight:{submission}")
    await desk.process._tiers(run)
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    second = await desk.submit(photo("daisy"), "daisy.jpg")
    job = await desk.claim()
    assert job
    run = await desk.process.runs.begin(job)
    assert run
    await kv.delete(desk.db, f"inflight:{second}")
    await desk.process.runs.fail(run, TimeoutError())
    assert (await desk.value(f"inflight:{second}"))["error"]["classification"] == "SCAN_TIMEOUT"


async def test_a_second_job_for_what_is_done_does_nothing(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.work()
    before = await desk.story(f"submission:{submission}")
    await desk.db.execute(
        "SELECT job_enqueue($1, 'acme', jsonb_build_object('submissionId', $2::text), $2)",
        PROCESS,
        submission,
    )
    assert await desk.work() == 1
    assert await desk.story(f"submission:{submission}") == before
    assert await desk.value(f"inflight:{submission}") is None


@pytest.mark.parametrize(
    "point",
    [
        "submissions.start_run", "submissions.put_inflight", "submissions.move",
        "submissions.tier1", "submissions.tier2", "submissions.store_rendition",
        "objects.put", "unit.close", "unit.close@2", "unit.close@3", "submissions.forget",
        "sandbox.run", "kv.put", "kv.delete", "queue.cancel", "queue.enqueue",
    ],
)  # fmt: skip
async def test_whichever_step_fails_a_later_run_publishes(desk: Desk, point: str) -> None:
    submission = await desk.submit()
    name, _, nth = point.partition("@")
    failpoints.arm(name, f"raise@{nth or 1}")
    job = await desk.claim()
    assert job
    try:
        await desk.finish(job, await desk.handlers[PROCESS].handle(job))
    except failpoints.FailpointError:
        await desk.take_over()  # the queue would try again by itself
    assert (await desk.public(submission)).status_code == 404
    failpoints.disarm()
    desk.clock.advance(minutes=6)
    await desk.recovery.run()
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert await desk.jobs() == []
    moved = [
        (data["from"], data["to"])
        for kind, data in await desk.story(f"submission:{submission}")
        if kind == "submission_state_changed"
    ]
    assert len(moved) == len(set(moved)) == 4


async def test_all_kinds_have_their_handlers(desk: Desk) -> None:
    made = {handler.kind.name for handler in desk.opened.handlers}
    assert made == {
        "submissions.process", "submissions.release", "submissions.source_gone",
        "submissions.take_down", "submissions.recover", "approvals.expire",
    }  # fmt: skip
