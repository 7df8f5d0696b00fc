"""Processes that are killed at every step there is, and what the next one finds."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.queue.crew import until
from points import points_of
from safelight.approvals.workflow import Approvals, Question
from safelight.objects.store import StoreUnavailable
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.policy import Looks, PolicyOverrides
from safelight.submissions.recovery.by_hand import ByHand
from safelight.submissions.submit import SubmissionRequest, Submit
from submissions.deaths import Errand, killed_at
from submissions.desk import ORG, PROCESS, Desk
from submissions.pictures import photo, plain

TESTS = Path(__file__).parents[1]
ADA = {"type": "user", "name": "ada"}
RELEASE = "submissions.release"
TAKE_DOWN = "submissions.take_down"


@dataclass(frozen=True)
class Story:
    """What there is beforehand, who dies on which errand, what is then as it was before, and what is
    true when somebody else does the errand again. `at` names the points on its way."""

    at: tuple[str, ...]
    before: Callable[[Desk], Awaitable[object]]
    errand: Errand
    as_before: dict[str, Any]
    afterwards: dict[str, Any] = field(default_factory=dict)


async def look(desk: Desk) -> dict[str, Any]:
    """Everything of submissions that a step may have left behind."""

    async def rows(query: str) -> list[Any]:
        return [row[0] for row in await desk.db.fetch(query)]

    return {
        "states": await rows("SELECT state FROM submissions ORDER BY id"),
        "objects": await rows(
            "SELECT split_part(key, '/', 1) FROM objects WHERE present "
            "AND key ~ '^(submissions|renditions)/' ORDER BY key"
        ),
        "approvals": await rows("SELECT status FROM approvals ORDER BY id"),
        "incidents": await rows(
            "SELECT value ->> 'classification' FROM kv, generate_series(1, (value ->> 'count')::int) "
            "WHERE key ~ '^tm:'"
        ),
        "retries": await rows("SELECT value ->> 'count' FROM kv WHERE key ~ '^recovery:budget:'"),
        "waits": await rows("SELECT value ->> 'waits' FROM kv WHERE key ~ '^recovery:budget:'"),
        "inflight": await rows("SELECT value ->> 'stage' FROM kv WHERE key ~ '^inflight:'"),
        "blocklist": await rows("SELECT note FROM blocklist"),
        "policies": await rows("SELECT safety_block FROM submission_policies"),
        "current": await rows("SELECT source_current FROM submissions ORDER BY id"),
        "jobs": await rows(
            f"SELECT kind FROM jobs WHERE kind ~ '^submissions' AND kind <> '{RELEASE}'"
        ),
        "moves": await rows(
            "SELECT data ->> 'to' FROM activity WHERE type = 'submission_state_changed' ORDER BY seq"
        ),
        "told": await rows(
            "SELECT type FROM activity WHERE type <> 'submission_state_changed' "
            "AND subject ~ '^(submission|approval|blocklist|policy):' ORDER BY seq"
        ),
    }


def seen(found: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in keys}


# What happens beforehand


async def nothing(_: Desk) -> None:
    return None


async def an_upload(desk: Desk) -> None:
    await desk.put("cat.jpg", photo())


async def a_submission(desk: Desk) -> None:
    await desk.submit()


async def a_doubtful_one(desk: Desk) -> None:
    desk.tools.score = 0.5
    await desk.submit()


async def one_whose_worker_died(desk: Desk) -> None:
    await desk.submit()
    await desk.worker_dies()
    desk.clock.advance(minutes=1)


async def a_stuck_one(desk: Desk) -> None:
    desk.tools.trouble = RuntimeError("onnx")
    await desk.submit()
    await desk.work()
    desk.tools.trouble = None
    desk.clock.advance(minutes=6)


async def one_that_waits_for_its_store(desk: Desk) -> None:
    desk.tools.trouble = StoreUnavailable()
    await desk.submit()
    await desk.work()
    desk.tools.trouble = None
    desk.clock.advance(minutes=6)


async def a_question(desk: Desk) -> None:
    await a_doubtful_one(desk)
    await desk.work()


async def a_withdrawn_one(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.work()
    async with await desk.as_role() as client:
        await client.post(f"/api/v1/submissions/{submission}/withdraw")


async def a_replaced_source(desk: Desk) -> None:
    await a_submission(desk)
    desk.clock.advance(seconds=1)
    await desk.put("cat.jpg", plain("red", (300, 200), "JPEG"))
    desk.clock.advance(seconds=1)


async def a_blocked_picture(desk: Desk) -> None:
    await block(desk)


async def a_published_one_ruled_out(desk: Desk) -> None:
    await a_submission(desk)
    await desk.work()
    await block(desk)


async def a_question_ruled_out(desk: Desk) -> None:
    await a_question(desk)
    await block(desk)


# Errands


async def submit(desk: Desk) -> None:
    wanted = SubmissionRequest(ORG, "upload", "cat.jpg", None, ADA)
    await desk.registry.get(Submit).submit(wanted)


async def work(desk: Desk) -> None:
    await desk.work()


async def recover(desk: Desk) -> None:
    await desk.recovery.run()


async def try_now(desk: Desk) -> None:
    await by_hand(desk).try_now(await desk.db.fetchval("SELECT id FROM submissions"), ADA)


async def give_up(desk: Desk) -> None:
    await by_hand(desk).give_up(await desk.db.fetchval("SELECT id FROM submissions"), ADA)


def by_hand(desk: Desk) -> ByHand:
    return ByHand(desk.recovery.units, desk.recovery.tempo)


async def ask(desk: Desk) -> None:
    await desk.registry.get(Approvals).request_approval(Question(ORG, "May I?", "", ADA))


async def approve(desk: Desk) -> None:
    approval = await desk.db.fetchval("SELECT id FROM approvals")
    await desk.registry.get(Approvals).approve_request(ORG, approval, ADA, None)


async def release(desk: Desk) -> None:
    await desk.due(RELEASE)


async def delete_source(desk: Desk) -> None:
    await desk.delete("cat.jpg")


async def block(desk: Desk) -> None:
    checksum = hashlib.sha256(photo()).hexdigest()
    await desk.registry.get(Policies).block(ORG, checksum, Looks(), "no", ADA)


async def take_down(desk: Desk) -> None:
    await desk.work(TAKE_DOWN)


async def unblock(desk: Desk) -> None:
    entry = await desk.db.fetchval("SELECT id FROM blocklist")
    await desk.registry.get(Policies).unblock(ORG, entry, ADA)


async def change_policy(desk: Desk) -> None:
    own = PolicyOverrides(safety_block=0.9, safety_review=0.4)
    await desk.registry.get(Policies).change(ORG, own, ADA)


WAY = ["RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "PUBLISHED"]


def scanning(state: str, *at: str, incidents: int = 1) -> Story:
    """A run that died in this state, and the next one, which publishes."""
    return Story(
        at, a_submission, work,
        {"states": [state], "moves": WAY[: WAY.index(state) + 1], "objects": ["submissions"],
         "inflight": [state] if incidents else [], "incidents": [], "jobs": [PROCESS]},
        {"states": ["PUBLISHED"], "moves": WAY, "objects": ["renditions", "submissions"],
         "inflight": [], "incidents": ["SCAN_TIMEOUT"] * incidents, "retries": [], "jobs": []},
    )  # fmt: skip


STORIES = (
    Story(
        ("objects.share", "submissions.add", "queue.enqueue", "unit.close"), an_upload, submit,
        {"states": [], "objects": [], "jobs": [], "moves": []},
        {"states": ["RECEIVED"], "objects": ["submissions"], "jobs": [PROCESS],
         "moves": ["RECEIVED"]},
    ),
    scanning("RECEIVED", "submissions.start_run", "submissions.put_inflight", incidents=0),
    scanning("RECEIVED", "submissions.move", "unit.close", "submissions.put_inflight@2"),
    scanning("TIER1_SCANNING", "submissions.tier1", "submissions.move@2", "unit.close@2"),
    scanning(
        "TIER2_SCANNING", "submissions.tier2", "submissions.store_rendition", "objects.put",
        "submissions.move@3", "submissions.forget", "queue.cancel", "queue.enqueue", "unit.close@3",
    ),
    Story(
        ("approvals.add", "submissions.move@3", "submissions.clear_inflight", "unit.close@3"),
        a_doubtful_one, work,
        {"states": ["TIER2_SCANNING"], "approvals": [], "objects": ["submissions"], "told": []},
        {"states": ["AWAITING_APPROVAL"], "approvals": ["pending"], "inflight": [], "jobs": [],
         "told": ["run_attempt", "approval_requested"]},
    ),
    Story(
        ("submissions.count_incident", "kv.increment"), one_whose_worker_died, work,
        {"states": ["RECEIVED"], "incidents": [], "told": []},
        {"states": ["PUBLISHED"], "incidents": ["SCAN_TIMEOUT"], "told": ["run_attempt"]},
    ),
    Story(
        ("submissions.spend", "kv.compare_and_set", "queue.enqueue", "unit.close"), a_stuck_one,
        recover,
        {"retries": [], "jobs": [], "incidents": ["MODEL_ERROR"], "told": ["run_attempt"]},
        {"retries": ["1"], "jobs": [PROCESS], "incidents": ["MODEL_ERROR"],
         "told": ["run_attempt", "submission_retried"]},
    ),
    Story(
        ("submissions.spend", "kv.compare_and_set", "queue.enqueue", "unit.close"),
        one_that_waits_for_its_store, recover,
        {"retries": [], "waits": [], "jobs": [], "told": ["run_attempt"]},
        {"retries": ["0"], "waits": ["1"], "jobs": [PROCESS], "incidents": ["STORAGE_ERROR"],
         "told": ["run_attempt", "submission_retried"]},
    ),
    Story(
        ("submissions.spend", "kv.compare_and_set", "queue.enqueue", "unit.close"), a_stuck_one,
        try_now,
        {"retries": [], "jobs": [], "incidents": ["MODEL_ERROR"], "told": ["run_attempt"]},
        {"retries": ["1"], "jobs": [PROCESS], "incidents": ["MODEL_ERROR"],
         "told": ["run_attempt", "submission_retried"]},
    ),
    Story(
        ("submissions.move", "submissions.forget", "queue.enqueue", "unit.close"), a_stuck_one,
        give_up,
        {"states": ["TIER2_SCANNING"], "inflight": ["TIER2_SCANNING"], "objects": ["submissions"]},
        {"states": ["REJECTED"], "inflight": [], "retries": [], "jobs": [],
         "moves": [*WAY[:3], "REJECTED"]},
    ),
    Story(
        ("approvals.add", "unit.close"), nothing, ask,
        {"approvals": [], "told": []}, {"approvals": ["pending"], "told": ["approval_requested"]},
    ),
    Story(
        ("approvals.write_decision", "submissions.move", "submissions.forget", "unit.close"),
        a_question, approve,
        {"states": ["AWAITING_APPROVAL"], "approvals": ["pending"], "told": ["approval_requested"]},
        {"states": ["PUBLISHED"], "approvals": ["approved"],
         "told": ["approval_requested", "approval_approved"]},
    ),
    Story(
        ("submissions.drop_object", "objects.delete"), a_withdrawn_one, release,
        {"states": ["WITHDRAWN"], "objects": ["renditions", "submissions"]},
        {"states": ["WITHDRAWN"], "objects": []},
    ),
    Story(
        ("submissions.outlive",), a_replaced_source, delete_source,
        {"states": ["RECEIVED"], "current": [True]},
        {"states": ["RECEIVED"], "current": [False], "moves": ["RECEIVED"]},
    ),
    Story(
        ("submissions.policies.block", "queue.enqueue", "unit.close"), nothing, block,
        {"blocklist": [], "told": [], "jobs": []},
        {"blocklist": ["no"], "told": ["blocklist_added"], "jobs": [TAKE_DOWN]},
    ),
    Story(
        ("submissions.move", "submissions.forget", "unit.close"), a_published_one_ruled_out,
        take_down,
        {"states": ["PUBLISHED"], "jobs": [TAKE_DOWN], "moves": WAY},
        {"states": ["WITHDRAWN"], "jobs": [], "moves": [*WAY, "WITHDRAWN"]},
    ),
    Story(
        ("submissions.move", "approvals.write_decision", "unit.close"), a_question_ruled_out,
        take_down,
        {"states": ["AWAITING_APPROVAL"], "approvals": ["pending"], "jobs": [TAKE_DOWN]},
        {"states": ["REJECTED"], "approvals": ["rejected"], "jobs": []},
    ),
    Story(
        ("approvals.write_decision", "submissions.move", "unit.close"), a_question_ruled_out,
        approve,
        {"states": ["AWAITING_APPROVAL"], "approvals": ["pending"]},
        {"states": ["REJECTED"], "approvals": ["approved"]},
    ),
    Story(
        ("submissions.policies.unblock", "unit.close"), a_blocked_picture, unblock,
        {"blocklist": ["no"], "told": ["blocklist_added"]},
        {"blocklist": [], "told": ["blocklist_added", "blocklist_removed"]},
    ),
    Story(
        ("submissions.policies.put_policy", "unit.close"), nothing, change_policy,
        {"policies": [], "told": []},
        {"policies": [0.9], "told": ["submission_policy_changed"]},
    ),
)  # fmt: skip
DEATHS = [(point, story) for story in STORIES for point in story.at]


@pytest.mark.parametrize(
    ("point", "story"), DEATHS, ids=[f"{story.errand.__name__}:{point}" for point, story in DEATHS]
)
async def test_killed_there_it_is_done_once_by_the_next(
    desk: Desk, point: str, story: Story
) -> None:
    await story.before(desk)
    await killed_at(point, desk, story.errand)
    assert seen(await look(desk), story.as_before) == story.as_before
    for submission in await desk.db.fetch("SELECT id, state FROM submissions"):
        shown = 200 if submission["state"] == "PUBLISHED" else 404
        assert (await desk.public(submission["id"])).status_code == shown
    assert await desk.counted() == await desk.held()
    await desk.take_over()
    await story.errand(desk)
    assert seen(await look(desk), story.afterwards) == story.afterwards
    assert await desk.counted() == await desk.held()


def test_no_step_is_left_out() -> None:
    """Only a bucket is copied from: test_bucket.py."""
    killed = {point.partition("@")[0] for point, _ in DEATHS}
    wanted = points_of("submissions.", "approvals.", without=["submissions.copy"])
    assert set(wanted) <= killed


# Whole workers, with their leases


def hire(desk: Desk, url: str, armed: str = "") -> "subprocess.Popen[bytes]":
    """Its clock is the real one, so ours has to be too. Two thirds of its lease are for a machine
    that is too busy to renew it in time."""
    program = str(Path(__file__).with_name("labourer.py"))
    arguments = [sys.executable, program, url, str(desk.directory / "blobs"), "6", armed]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, env={**inherited, "PYTHONPATH": str(TESTS)}
    )


@contextmanager
def hired(desk: Desk, url: str, armed: str = "") -> Iterator[psutil.Process]:
    """One that is at work."""
    with hire(desk, url, armed) as labourer:
        try:
            assert labourer.stdout
            assert b"ready\n" in iter(labourer.stdout.readline, b"")
            yield psutil.Process(labourer.pid)
        finally:
            labourer.kill()


async def counted(desk: Desk) -> dict[str, int]:
    rows = await desk.db.fetch("SELECT value FROM kv WHERE key ~ '^tm:'")
    return {row["value"]["classification"]: row["value"]["count"] for row in rows}


async def moves(desk: Desk, submission: str) -> list[str]:
    story = await desk.story(f"submission:{submission}")
    return [data["to"] for kind, data in story if kind == "submission_state_changed"]


async def test_another_worker_takes_over_within_seconds(desk: Desk, database_url: str) -> None:
    """SIGKILL in the middle of a scan; nobody does anything about it but the queue."""
    desk.clock.ms = time.time_ns() // 1_000_000
    submission = await desk.submit()
    with hired(desk, database_url, "submissions.tier2=hang") as first:
        await until(lambda: in_state(desk, submission, "TIER2_SCANNING"), 40)
        [job] = await desk.jobs()
        with hired(desk, database_url) as second:
            below = first.children(recursive=True)
            over = "SELECT clock_timestamp() > $1"  # a live worker keeps its claim for longer
            await until(lambda: desk.db.fetchval(over, job["lease_until"]), every=0.1)
            assert await in_state(desk, submission, "TIER2_SCANNING")
            assert [found["claim"] for found in await desk.jobs()] == [job["claim"]]
            first.kill()
            await until(lambda: in_state(desk, submission, "PUBLISHED"), 40)
            assert psutil.wait_procs(below, timeout=5)[1] == []
            second.terminate()
            second.wait(20)
    assert await counted(desk) == {"SCAN_TIMEOUT": 1}
    assert await moves(desk, submission) == [
        "RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "PUBLISHED",
    ]  # fmt: skip


async def test_a_worker_that_is_stopped_gives_its_work_back(desk: Desk, database_url: str) -> None:
    desk.clock.ms = time.time_ns() // 1_000_000
    submission = await desk.submit()
    with hired(desk, database_url, "submissions.tier1=hang") as labourer:
        await until(lambda: in_state(desk, submission, "TIER1_SCANNING"), 40)
        labourer.terminate()
        labourer.wait(30)
    [job] = await desk.jobs()
    assert (job["status"], job["attempts"]) == ("queued", 0)
    assert await desk.value(f"inflight:{submission}") is None
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert await counted(desk) == {}


async def in_state(desk: Desk, submission: str, state: str) -> bool:
    found = await desk.db.fetchval("SELECT state FROM submissions WHERE id = $1", submission)
    return bool(found == state)
