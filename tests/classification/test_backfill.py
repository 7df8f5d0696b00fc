"""Entries that were labelled before get what they lack, quietly, below everything else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from library.scripted import Scripted, drawing_of
from safelight.classification.jobs import BACKFILL, DRAW
from safelight.classification.lifecycle import Drawn
from safelight.classification.quiet import Quiet
from safelight.infra import failpoints
from safelight.infra.queue.queue import Queue
from safelight.testing.waiting import until

RED, BLUE = picture(colour="red"), picture(colour="blue")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    monkeypatch.setattr("safelight.wiring.build_classifier", lambda *_: scripted)
    return scripted


@pytest.fixture
async def api(model: Scripted, database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


async def labelled_before(api: Api, name: str = "a.jpg", content: bytes = RED) -> dict[str, Any]:
    """As a version that drew nothing left it."""
    await api.upload(name, content)
    await api.settled(name)
    await api.idle()
    await api.app.db.execute(
        "WITH gone AS (DELETE FROM thumbnails) "
        "UPDATE uploads SET drawn = 0, checksum = NULL, dominant_color = NULL"
    )
    return await api.entry(name) or {}


async def look(api: Api) -> None:
    queue = api.app.registry.get(Queue)
    await queue.enqueue(api.app.db, BACKFILL, BACKFILL.payload(), organization="")
    queue.wake()


async def drawn(api: Api) -> list[int]:
    rows = await api.app.db.fetch("SELECT drawn FROM uploads ORDER BY name")
    return [row["drawn"] for row in rows]


async def test_what_is_lacking_is_drawn_and_nothing_else_happens(api: Api) -> None:
    before = await labelled_before(api)
    story = await api.story("a.jpg")
    newest = await api.app.db.fetchval("SELECT max(seq) FROM activity")
    await look(api)
    await until(lambda: _is(api, [3]))
    await api.idle()
    drawing, entry = drawing_of(RED), await api.entry("a.jpg") or {}
    assert (entry["checksum"], entry["dominantColor"]) == (drawing.digest, drawing.color)
    new = {"checksum", "dominantColor"}
    assert {key: entry[key] for key in entry.keys() - new} == {
        key: before[key] for key in before.keys() - new
    }
    small = await api.client.get(f"{LIBRARY}/a.jpg/thumbnail")
    assert small.content == drawing.thumbnail
    assert await api.story("a.jpg") == story
    assert await api.app.db.fetchval("SELECT max(seq) FROM activity") == newest


async def _is(api: Api, wanted: list[int]) -> bool:
    return await drawn(api) == wanted


async def test_once_nothing_is_lacking_nothing_is_done(api: Api, model: Scripted) -> None:
    await api.upload("a.jpg", RED)
    await api.settled("a.jpg")
    asked = len(model.asked)
    await look(api)
    await api.idle()
    assert len(model.asked) == asked


async def test_a_picture_that_cannot_be_drawn_is_tried_once(api: Api, model: Scripted) -> None:
    await labelled_before(api)
    model.mood = "die"
    await look(api)
    await until(lambda: _is(api, [Drawn.NO_MORE]))
    asked = len(model.asked)
    await look(api)
    await api.idle()
    assert len(model.asked) == asked
    assert (await api.entry("a.jpg") or {})["classificationStatus"] == "done"
    assert await api.letters() == []


@pytest.mark.parametrize("end", ["overwrite", "delete"])
async def test_a_newer_upload_is_never_touched(api: Api, model: Scripted, end: str) -> None:
    await labelled_before(api)
    model.mood = "wait"
    await look(api)
    gate = await asyncio.wait_for(model.waiting.get(), 20)
    model.mood = "answer"
    if end == "delete":
        await api.delete("a.jpg")
        await api.gone("a.jpg")
    else:
        await api.upload("a.jpg", BLUE)
        await until(lambda: _labelled(api, BLUE))
    gate.set_result("answer")
    await api.idle()
    rows = await api.app.db.fetch("SELECT data FROM thumbnails")
    wanted = [] if end == "delete" else [drawing_of(BLUE).thumbnail]
    assert [row["data"] for row in rows] == wanted


async def _labelled(api: Api, content: bytes) -> bool:
    entry = await api.entry("a.jpg") or {}
    return bool(entry.get("checksum") == drawing_of(content).digest)


async def test_a_model_that_is_away_is_waited_for(api: Api, model: Scripted) -> None:
    await labelled_before(api)
    model.mood = "away"
    await look(api)
    await until(lambda: _waits(api))
    assert await drawn(api) == [0]
    model.mood = "answer"
    await until(lambda: _hurried(api))
    assert await drawn(api) == [3]


async def _waits(api: Api) -> bool:
    waiting = "SELECT status = 'delayed' FROM jobs WHERE kind = $1"
    return bool(await api.app.db.fetchval(waiting, DRAW.name))


async def _hurried(api: Api) -> bool:
    await api.hurry()
    return not await api.app.db.fetchval("SELECT count(*) FROM jobs WHERE status <> 'dead'")


async def test_a_model_that_fails_for_good_is_given_up(api: Api, model: Scripted) -> None:
    await labelled_before(api)
    model.mood = "fail"
    await look(api)
    await until(lambda: _gave_up(api))
    assert await api.letters() == []


async def _gave_up(api: Api) -> bool:
    await api.hurry()
    return await drawn(api) == [Drawn.NO_MORE]


@pytest.mark.parametrize(
    "point", ["classification.draw", "classification.drawn", "classification.enqueue_drawing"]
)
async def test_killed_while_it_draws(api: Api, point: str) -> None:
    before = await labelled_before(api)
    armed = failpoints.arm(point, "raise@1")
    await look(api)
    await armed.passed()
    await until(lambda: _hurried(api))
    await look(api)
    await until(lambda: _is(api, [3]))
    entry = await api.entry("a.jpg") or {}
    assert entry["classifiedAt"] == before["classifiedAt"]
    assert await api.app.db.fetchval("SELECT count(*) FROM thumbnails") == 1


async def test_one_that_ends_its_workers_is_not_looked_for_again(api: Api) -> None:
    """Its job is buried, and in the same transaction it is marked, whatever befalls that."""
    await labelled_before(api)
    armed = failpoints.arm("classification.draw_no_more", "raise@1")
    entry = await api.entry("a.jpg") or {}
    await api.app.db.execute(
        "SELECT job_enqueue('classification.draw', 'default', $1, 'k')",
        {"name": "a.jpg", "idempotencyKey": entry["idempotencyKey"]},
    )
    await api.app.db.execute("UPDATE jobs SET attempts = 4 WHERE key = 'k'")
    api.app.registry.get(Queue).wake()
    await armed.passed()
    await api.app.db.execute("UPDATE jobs SET lease_until = now() WHERE status = 'running'")
    await until(lambda: _gave_up(api))
    [letter] = await api.letters()
    assert letter["kind"] == DRAW.name
    await look(api)
    await api.idle()
    assert len(await api.letters()) == 1


async def test_runs_come_first() -> None:
    quiet = Quiet()
    await quiet.wait()
    with quiet.broken():
        with quiet.broken():
            pass
        waiting = asyncio.create_task(quiet.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_drawing_waits_for_the_runs_that_are_under_way(api: Api, model: Scripted) -> None:
    await labelled_before(api)
    model.mood = "wait"
    await api.upload("b.jpg", BLUE)
    gate = await asyncio.wait_for(model.waiting.get(), 20)
    model.mood = "answer"
    held = failpoints.arm("classification.draw", "pass")
    await look(api)
    await until(lambda: _under_way(api))
    assert held.passes == 0
    gate.set_result("answer")
    await held.passed()
    await api.idle()
    assert await drawn(api) == [3, 3]


async def _under_way(api: Api) -> bool:
    running = "SELECT status = 'running' FROM jobs WHERE kind = $1"
    return bool(await api.app.db.fetchval(running, DRAW.name))


async def test_what_was_off_is_drawn_when_it_is_on(
    model: Scripted, database_url: str, tmp_path: Path
) -> None:
    """And an embedding, where the model before gave none."""
    async with (
        application(database_url, tmp_path, worker=True) as app,
        app.client() as client,
    ):
        api = Api(app, client)
        await api.upload("a.jpg", RED)
        await api.settled("a.jpg")
        await app.db.execute("WITH gone AS (DELETE FROM thumbnails) UPDATE uploads SET drawn = 1")
    assert Drawn(7).lacking == [0, 1, 2, 3, 4, 5, 6]
    assert Drawn(3).lacking == [0, 1, 2, 4, 5, 6]
    async with (
        application(database_url, tmp_path, worker=True) as app,
        app.client() as client,
    ):
        api = Api(app, client)
        await look(api)
        await until(lambda: _is(api, [3]))
        assert await app.db.fetchval("SELECT count(*) FROM thumbnails") == 1
