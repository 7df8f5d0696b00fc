"""Vendors that fail, forget nothing, ask for patience or are away, and those who wait for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from emulators.replicate import Replicate
from emulators.runware import Plan, Runware
from generations.world import Client, World, world
from safelight.generations import jobs
from safelight.infra.injected import SystemClock
from safelight.infra.queue.jobs import Backoff
from safelight.testing.hands import Hands
from safelight.testing.injected import Watch
from safelight.testing.waiting import until

Here = dict[str, Any]
HOUR_MS = 3_600_000
SMALL = {"width": 64, "height": 64}


@pytest.fixture
def here(database_url: str, directory: Path, vendor: Runware) -> Here:
    return {"database_url": database_url, "directory": directory, **vendor.settings}


# What a vendor remembers


async def test_a_failure_that_the_vendor_remembers_is_submitted_anew(
    here: Here, vendor: Runware
) -> None:
    """Asking about it would bring the same answer for ever: only another task can succeed."""
    vendor.default = Plan(comes_to_nothing=["timeoutProvider"])
    async with world(**here) as made, made.client() as client:
        done = await client.over(await client.ask())
        assert (done["status"], done["artifactCount"]) == ("ready", 1)
        assert (await client.story(done["id"])).count("task_attempt") == 2
    first, second = (task["taskUUID"] for task in vendor.submitted)
    assert first != second
    assert vendor.asked == [first]


async def test_a_question_that_is_turned_away_says_nothing_of_the_task(
    here: Here, vendor: Runware
) -> None:
    """The vendor has it, and would be paid twice if it were submitted again."""
    vendor.default = Plan(lose_answer=True)
    vendor.turned_away = [503, 429]
    async with world(**here) as made, made.client() as client:
        assert (await client.over(await client.ask()))["status"] == "ready"
    assert len(vendor.submitted) == 1
    assert vendor.asked == [vendor.submitted[0]["taskUUID"]] * 3


# Just before the end


async def asked_at_the_end(made: World, client: Client) -> dict[str, Any]:
    """A generation whose call breaks off when no time is left for another try: the timer has one."""
    generation = await client.ask()

    async def left_to_the_timer() -> bool:
        alone = await made.db.fetchval("SELECT count(*) = 1 FROM jobs")
        return alone and "task_attempt" in await client.story(generation)

    await until(left_to_the_timer)
    await made.ring()
    done = await client.over(generation)
    assert "generation_timed_out" in await client.story(generation)
    return done


@pytest.fixture
def no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORK_RETRY", Backoff(first=7200, cap=7200))


@pytest.mark.usefixtures("no_second_try")
@pytest.mark.parametrize("plan", [{"lose_answer": True}, {"media": ["broken", "fine"]}])
async def test_what_the_vendor_has_is_kept_at_the_end(
    here: Here, vendor: Runware, plan: dict[str, Any]
) -> None:
    vendor.default = Plan(**plan)
    async with world(**here) as made, made.client() as client:
        done = await asked_at_the_end(made, client)
        assert (done["status"], done["artifactCount"]) == ("ready", 1)
    [task] = vendor.submitted
    assert vendor.asked == ([task["taskUUID"]] if "lose_answer" in plan else [])


@pytest.mark.usefixtures("no_second_try")
async def test_what_the_vendor_has_not_is_late(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(lose_answer=True, forgets=True)
    async with world(**here) as made, made.client() as client:
        done = await asked_at_the_end(made, client)
        assert done["tasks"][0]["error"]["code"] == "timeout"
    assert len(vendor.submitted) == len(vendor.asked) == 1


# Patience


DELAYED = """
SELECT count(*) FROM jobs WHERE kind = 'generations.runware' AND status = 'delayed'
AND organization = $1
"""


async def test_who_is_told_to_wait_waits_alone(here: Here, vendor: Runware) -> None:
    """Another organization's picture is made meanwhile. Whoever waits is a row with a later time, and
    nothing is put down as an attempt of what was not even sent."""
    vendor.plans = {0: Plan(statuses=[429] * 9, retry_after="30")}
    async with (
        world(**here, generation_concurrency=1) as made,
        made.client() as client,
        made.client("globex") as other,
    ):
        first = await client.ask(input={"prompt": "p", "seed": 0})
        await until(lambda: made.db.fetchval(DELAYED, "acme"))
        second = await client.ask(input={"prompt": "p", "seed": 1})
        done = await other.over(await other.ask(input={"prompt": "p", "seed": 2}))
        assert done["status"] == "ready"
        await until(lambda: made.db.fetchval(f"SELECT ({DELAYED}) = 2", "acme"))
        assert await made.db.fetchval("SELECT max(attempts) FROM jobs") == 0
        assert (await client.story(first)).count("task_attempt") == 1
        assert "task_attempt" not in await client.story(second)
        assert [task["seed"] for task in vendor.submitted] == [0, 2]


async def test_while_one_waits_the_others_go_one_at_a_time(here: Here, vendor: Runware) -> None:
    gate = asyncio.Event()
    vendor.plans = {0: Plan(statuses=[429] * 9, retry_after="30")}
    vendor.default = Plan(gate=gate)
    async with world(**here) as made, made.client() as client, made.client("globex") as other:
        await client.ask(input={"prompt": "p", "seed": 0})
        await until(lambda: made.db.fetchval(DELAYED, "acme"))
        theirs = await other.ask(count=3, input={"prompt": "p", "seed": 1})
        await until(lambda: made.db.fetchval(f"SELECT ({DELAYED}) = 2", "globex"))
        await until(lambda: vendor.working == 1)  # the third may still be on its way
        gate.set()
        assert (await other.over(theirs))["artifactCount"] == 3
        assert "task_attempt" not in await other.story(theirs)
        assert vendor.most == 1


async def work_through(made: World, watch: Watch, *, until_ms: int, step: int) -> None:
    """Lets time pass: whatever waits for a later time is due with each step."""
    hands = Hands(made.queue, made.generations.handlers)
    while watch.now_ms() < until_ms:
        watch.move(seconds=step)
        await hands.hurry()
        await hands.work("generations.runware")


async def test_an_hour_of_503(here: Here, vendor: Runware) -> None:
    """Nothing is lost and nobody has to mend anything; a generation with less time than that ends
    when its time does, and says why."""
    watch = Watch(SystemClock().now_ms())
    start, away = watch.now_ms(), [503] * 1000
    vendor.default = Plan(statuses=away)
    patient = {**here, "generation_image_timeout_seconds": 7200, "clock": watch}
    async with world(**patient, worker=False) as made, made.client() as client:
        generation = await client.ask(count=2)
        await work_through(made, watch, until_ms=start + HOUR_MS, step=120)
        shown = await client.show(generation)
        assert [task["status"] for task in shown["tasks"]] == ["pending", "pending"]
        last = (await client.items(f"/generations/{generation}/history", limit=200))[-1]
        assert (last["type"], last["error"]["message"]) == ("task_attempt", "Runware answered 503.")
        assert last["reason"] == "next attempt in 30.0 s"
        away.clear()
        await work_through(made, watch, until_ms=start + HOUR_MS + 60_000, step=60)
        assert (await client.show(generation))["artifactCount"] == 2
        assert await made.db.fetchval("SELECT count(*) FROM jobs WHERE status = 'dead'") == 0


async def test_an_hour_of_503_is_longer_than_some_have(here: Here, vendor: Runware) -> None:
    watch = Watch(SystemClock().now_ms())
    vendor.default = Plan(statuses=[503] * 1000)
    async with world(**here, worker=False, clock=watch) as made, made.client() as client:
        generation = await client.ask()
        await work_through(made, watch, until_ms=watch.now_ms() + 300_000, step=31)
        [task] = (await client.show(generation))["tasks"]
        assert task["error"]["code"] == "provider_error"
        assert "503" in task["error"]["message"]
        assert await made.db.fetchval("SELECT count(*) FROM jobs WHERE status = 'dead'") == 0


# Slow ones of our own


@pytest.mark.parametrize("slow", [{"delaySeconds": 300}, {"fail": "silent"}])
async def test_what_is_told_to_be_slow_takes_nobodys_turn(
    database_url: str, directory: Path, slow: dict[str, Any]
) -> None:
    async with (
        world(database_url, directory) as made,
        made.client() as client,
        made.client("globex") as other,
    ):
        generation = await client.ask("studio/horizon", count=20, input={**SMALL, **slow})

        async def all_taken() -> bool:
            tasks = (await client.show(generation))["tasks"]
            return all(task["status"] == "submitted" for task in tasks)

        await until(all_taken)
        done = await other.over(await other.ask("studio/horizon", input=SMALL))
        assert done["status"] == "ready"
        assert (await client.show(generation))["status"] == "active"
        running = "SELECT count(*) FROM jobs WHERE status = 'running'"
        await until(lambda: made.db.fetchval(f"SELECT ({running}) = 0"))


# Signatures that cannot be checked


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_without_a_key_no_webhook_is_believed(
    database_url: str, directory: Path, predictor: Replicate, status: int
) -> None:
    """It is asked for again later; until then the vendor itself is asked about the task."""
    predictor.secret_status = status
    async with (
        world(database_url, directory, **predictor.settings) as made,
        made.client() as client,
    ):
        generation = await client.ask("acme/film", kind="video")
        done = await client.over(generation)
        assert (done["status"], done["artifactCount"]) == ("ready", 1)
        assert predictor.told == [503]
        assert predictor.polled == ["pred1"]
        assert "webhook_accepted" not in await client.story(generation)
