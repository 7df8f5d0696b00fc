"""What is the image's own fault ends its run at once, or at the second death, and is its owner's."""

import errno
from typing import Any

import pytest

from library.conftest import MakeWorld
from library.reconciling import entry, stored, story, world_of
from library.scripted import BROKEN, Mood
from library.truth import check_end
from library.world import World
from objects.trouble import unreadable_blobs
from safelight.infra.queue.jobs import Dead, Done, PutBack

RUN = "classification.run"


async def ready(make_world: MakeWorld, content: bytes = b"one") -> World:
    """One image whose run waits for a worker."""
    world = await world_of(make_world)
    await stored(world, "a.jpg", content)
    job = await world.claim(kind="objects.deliver")
    assert job
    await world.work(job)
    return world


async def tried(world: World, mood: Mood, crash: str | None = None) -> Any:
    job = await world.claim(kind=RUN)
    assert job
    world.classifier.mood = mood
    outcome = await world.work(job, crash=crash, lost=crash is not None)
    world.classifier.mood = "answer"
    return outcome


async def told(world: World, kind: str) -> list[dict[str, Any]]:
    rows = await world.db.fetch(
        "SELECT data FROM activity WHERE organization = $1 AND type = $2 ORDER BY seq",
        world.organization,
        kind,
    )
    return [row["data"] for row in rows]


async def failed_for_good(world: World) -> dict[str, Any]:
    """The entry says so, everybody was told, nothing is left to do and no operator has it."""
    assert (await entry(world, "a.jpg") or {})["classification_status"] == "failed"
    assert await world.db.fetchval("SELECT count(*) FROM jobs WHERE kind = $1", RUN) == 0
    *_, last = await told(world, "classification_error")
    assert last["final"] is True
    error: dict[str, Any] = last["error"]
    run = await world.db.fetchrow("SELECT status, error FROM classification_runs")
    assert run
    assert (run["status"], run["error"]) == ("failed", error)
    return error


async def test_bytes_that_cannot_be_decoded(make_world: MakeWorld) -> None:
    world = await ready(make_world, BROKEN)
    assert await tried(world, "answer") == Done(already=True)
    assert (await failed_for_good(world))["code"] == "UNDECODABLE"
    assert len(await told(world, "classification_error")) == 1
    assert [kind for kind, _ in await story(world, "a.jpg")][-2:] == [
        "run_attempt",
        "classification_error",
    ]
    await check_end(world)


@pytest.mark.parametrize("between", [[], ["away"], ["fail"], ["away", "fail", "away"]])
async def test_the_second_death_is_the_last(make_world: MakeWorld, between: list[Mood]) -> None:
    """Whatever else went wrong in between."""
    world = await ready(make_world)
    assert isinstance(await tried(world, "die"), PutBack)
    [line] = await told(world, "classification_error")
    assert line["final"] is False
    for mood in between:
        assert isinstance(await tried(world, mood), PutBack)
    assert await tried(world, "die") == Done(already=True)
    error = await failed_for_good(world)
    assert (error["code"], "twice" in error["message"]) == ("UNDECODABLE", True)


async def test_one_death_may_have_been_anybodys(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    await tried(world, "die")
    await world.drain()
    await check_end(world)


async def test_a_worker_that_dies_too_does_not_forget_the_first(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    await tried(world, "die", crash="classification.note_failure")
    await world.end_leases()
    assert await tried(world, "die") == Done(already=True)
    await failed_for_good(world)


async def test_a_death_that_could_not_be_counted_is_the_next_ones_first(
    make_world: MakeWorld,
) -> None:
    world = await ready(make_world)
    await tried(world, "die", crash="classification.count_child_death")
    await world.end_leases()
    assert isinstance(await tried(world, "die"), PutBack)
    assert await tried(world, "die") == Done(already=True)


async def test_a_disk_in_trouble_is_waited_for(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a volume that came back with another owner: no image is to blame, and people hear what to
    do instead of where the file lies."""
    world = await ready(make_world)
    with unreadable_blobs(monkeypatch, errno.EACCES):
        outcomes = [await tried(world, "answer") for _ in range(6)]
    assert [type(outcome) for outcome in outcomes] == [PutBack] * 6
    assert await world.dead_letters() == []
    [line] = await told(world, "classification_error")
    assert (line["error"]["code"], line["final"]) == ("UNAVAILABLE", False)
    history = await world.db.fetchval("SELECT jsonb_agg(data)::text FROM activity")
    assert "blobs" not in history
    await world.drain()
    await check_end(world)


async def test_a_model_that_refuses_is_the_systems_fault(make_world: MakeWorld) -> None:
    """Three retries, then a dead letter that says why, and that can be redriven."""
    world = await ready(make_world)
    outcomes = [await tried(world, "fail") for _ in range(4)]
    assert [type(outcome) for outcome in outcomes] == [PutBack, PutBack, PutBack, Dead]
    errors = await told(world, "classification_error")
    assert [error["final"] for error in errors] == [False, False, False, True]
    assert [line["attempt"] for line in await told(world, "run_attempt")] == [1, 2, 3, 4]
    [letter] = await world.dead_letters()
    assert await world.redrive(letter)
    await world.drain()
    await check_end(world)


def counted(world: World) -> dict[str, float]:
    """Attempts by their end."""
    [family] = world.metrics.classifications.collect()
    samples = [sample for sample in family.samples if sample.name.endswith("_total")]
    return {sample.labels["outcome"]: sample.value for sample in samples}


@pytest.mark.parametrize(
    ("moods", "wanted"),
    [
        (["answer"], {"done": 1}),
        (["away", "away", "answer"], {"away": 2, "done": 1}),
        (["fail"] * 4, {"retried": 3, "dead": 1}),
        (["die", "die"], {"retried": 1, "failed": 1}),
    ],
)
async def test_each_attempt_is_counted_by_its_end(
    make_world: MakeWorld, moods: list[Mood], wanted: dict[str, float]
) -> None:
    world = await ready(make_world)
    for mood in moods:
        await tried(world, mood)
    assert counted(world) == wanted


async def test_an_image_that_cannot_be_read_is_not_counted_as_done(make_world: MakeWorld) -> None:
    world = await ready(make_world, BROKEN)
    await tried(world, "answer")
    assert counted(world) == {"failed": 1}


async def test_a_result_for_nothing_is_not_counted_as_done(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    job = await world.claim(kind=RUN)
    assert job
    await world.db.execute("UPDATE uploads SET run = run + 1")
    await world.work(job)
    assert counted(world) == {"dropped": 1}


async def test_a_letter_of_the_version_before_ends_as_its_image_does(
    make_world: MakeWorld,
) -> None:
    """It made dead letters of damaged files; redriven, one of them ends without another."""
    world = await ready(make_world, BROKEN)
    await world.db.execute(
        "UPDATE jobs SET status = 'dead', died_at = now(), attempts = 1, "
        'error = \'{"code": "UNDECODABLE", "message": "x"}\' WHERE kind = $1',
        RUN,
    )
    await world.db.execute("UPDATE classification_runs SET status = 'failed'")
    await world.db.execute("UPDATE uploads SET classification_status = 'failed'")
    [letter] = await world.dead_letters()
    assert await world.redrive(letter)
    await world.drain()
    assert (await failed_for_good(world))["code"] == "UNDECODABLE"
    await check_end(world)
