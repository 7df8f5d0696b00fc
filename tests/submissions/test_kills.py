"""Workers that are killed, in processes of their own, at every stage."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra.queue.crew import until
from safelight.infra.failpoints import EXIT_CODE
from submissions.desk import Desk

TESTS = Path(__file__).parents[1]


def hire(desk: Desk, url: str, armed: str = "", lease: float = 10.0) -> "subprocess.Popen[bytes]":
    """Its clock is the real one, so ours has to be too."""
    program = str(Path(__file__).with_name("labourer.py"))
    arguments = [sys.executable, program, url, str(desk.directory / "blobs"), str(lease), armed]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, env={**inherited, "PYTHONPATH": str(TESTS)}
    )


@contextmanager
def hired(desk: Desk, url: str, armed: str = "", lease: float = 10.0) -> Iterator[psutil.Process]:
    with hire(desk, url, armed, lease) as labourer:
        try:
            yield psutil.Process(labourer.pid)
        finally:
            labourer.kill()


async def counted(desk: Desk) -> dict[str, int]:
    rows = await desk.db.fetch("SELECT value FROM kv WHERE key ~ '^tm:'")
    return {row["value"]["classification"]: row["value"]["count"] for row in rows}


async def moves(desk: Desk, submission: str) -> list[str]:
    story = await desk.story(f"submission:{submission}")
    return [data["to"] for kind, data in story if kind == "submission_state_changed"]


@pytest.mark.parametrize(
    ("point", "state", "incidents"),
    [
        ("submissions.start_run", "RECEIVED", 0),
        ("submissions.tier1", "TIER1_SCANNING", 1),
        ("submissions.move@2", "TIER1_SCANNING", 1),
        ("submissions.tier2", "TIER2_SCANNING", 1),
        ("submissions.store_rendition", "TIER2_SCANNING", 1),
        ("submissions.tell_rendition", "TIER2_SCANNING", 1),
    ],
)
async def test_a_worker_killed_at_any_stage(
    desk: Desk, database_url: str, point: str, state: str, incidents: int
) -> None:
    desk.clock.ms = time.time_ns() // 1_000_000
    submission = await desk.submit()
    name, _, nth = point.partition("@")
    with hire(desk, database_url, f"{name}=exit{'@' + nth if nth else ''}") as labourer:
        assert await asyncio.to_thread(labourer.wait, 40) == EXIT_CODE
    assert (await desk.see(submission))["state"] == state
    assert (await desk.public(submission)).status_code == 404
    desk.clock.ms = time.time_ns() // 1_000_000
    await desk.take_over()
    assert await desk.work() == 1
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    assert (await desk.public(submission)).status_code == 200
    assert await counted(desk) == ({"SCAN_TIMEOUT": incidents} if incidents else {})
    assert await moves(desk, submission) == [
        "RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "PUBLISHED",
    ]  # fmt: skip
    assert await desk.value(f"recovery:budget:{submission}") is None
    assert await desk.value(f"inflight:{submission}") is None
    assert await desk.jobs() == []


async def test_another_worker_takes_over_within_seconds(desk: Desk, database_url: str) -> None:
    """SIGKILL in the middle of a scan; nobody does anything about it but the queue."""
    desk.clock.ms = time.time_ns() // 1_000_000
    submission = await desk.submit()
    with hired(desk, database_url, "submissions.tier2=hang", lease=3.0) as first:
        await until(lambda: in_state(desk, submission, "TIER2_SCANNING"), 40)
        with hired(desk, database_url, lease=3.0) as second:
            below = first.children(recursive=True)
            await asyncio.sleep(3.5)  # longer than a lease: a live worker keeps its claim
            assert await in_state(desk, submission, "TIER2_SCANNING")
            first.kill()
            await until(lambda: in_state(desk, submission, "PUBLISHED"), 20)
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
