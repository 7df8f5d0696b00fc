"""Classifying a library anew, below everything that is new."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from classification.seeing import Seeing
from harness import picture
from inprocess import application
from library.api import ORGANIZATION, Api, Json
from points import points_of
from safelight.classification.reclassify import reclassify as service
from safelight.classification.reclassify.lifecycle import ReclassifyFilter
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.testing.waiting import until

PATH = f"{ORGANIZATION}/reclassify"
RED, GREEN, BLUE = (picture(colour=colour) for colour in ("red", "green", "blue"))
CONTENTS = {"a": RED, "b": GREEN, "c": BLUE}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Seeing:
    model = Seeing(labels={RED: ("ROSE",), GREEN: ("LEAF",), BLUE: ("SEA",)})
    monkeypatch.setattr("safelight.wiring.build_classifier", lambda *_: model)
    monkeypatch.setattr(service, "_SOON", 0.02)
    monkeypatch.setattr(service, "_LATER", 0.02)
    return model


@pytest.fixture
async def api(model: Seeing, database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        api = Api(app, client)
        for name, content in CONTENTS.items():
            await api.upload(name, content)
            await api.settled(name)
        await api.idle()
        yield api


async def ask(api: Api, **wanted: Any) -> str:
    answer = await api.client.post(PATH, json=wanted)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def progress(api: Api, new_id: str) -> Json:
    answer = await api.client.get(f"{PATH}/{new_id}")
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def over(api: Api, new_id: str, status: str = "done") -> tuple[int, int, int, int, int]:
    """Total, done, failed, skipped and remaining, once it is over."""

    async def check() -> Json | None:
        found = await progress(api, new_id)
        return found if found["status"] == status else None

    found = await until(check)
    return tuple(found[n] for n in ("total", "done", "failed", "skipped", "remaining"))


async def runs(api: Api) -> list[tuple[str, int]]:
    rows = await api.app.db.fetch("SELECT name, run FROM uploads ORDER BY name")
    return [(row["name"], row["run"]) for row in rows]


async def count(api: Api, **wanted: Any) -> int:
    answer = await api.client.post(PATH, json={**wanted, "dryRun": True})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["total"])


async def test_everything_once_and_only_changes_are_told(api: Api, model: Seeing) -> None:
    model.labels[RED] = ("TULIP",)
    told = len(await api.messages("classification_updated"))
    new = await ask(api)
    assert await over(api, new) == (3, 3, 0, 0, 0)
    assert await runs(api) == [("a", 2), ("b", 2), ("c", 2)]
    assert (await api.entry("a") or {})["classificationLabel"] == "TULIP"
    [news] = (await api.messages("classification_updated"))[told:]
    assert (news["name"], news["classificationLabel"]) == ("a", "TULIP")
    story = await api.story("b")
    assert [line["type"] for line in story][-2:] == ["classification_asked", "run_attempt"]
    assert story[-2]["actor"] == {"type": "token", "name": "bootstrap"}
    assert await api.app.db.fetchval("SELECT count(*) FROM reclassifying") == 0


async def test_the_old_label_is_there_until_the_next_one_is(api: Api, model: Seeing) -> None:
    model.mood = "wait"
    new = await ask(api)
    gates = [await asyncio.wait_for(model.waiting.get(), 20) for _ in CONTENTS]
    for name, label in (("a", "ROSE"), ("b", "LEAF"), ("c", "SEA")):
        entry = await api.entry(name) or {}
        assert (entry["classificationStatus"], entry["classificationLabel"]) == ("done", label)
    assert (await progress(api, new))["remaining"] == 3
    model.mood = "answer"
    for gate in gates:
        gate.set_result("answer")
    assert await over(api, new) == (3, 3, 0, 0, 0)


async def test_only_those_that_are_wanted(api: Api, model: Seeing) -> None:
    await api.app.db.execute(
        "UPDATE uploads SET classification_model = CASE name WHEN 'a' THEN 'seeing@123' "
        "WHEN 'b' THEN 'older@123' ELSE classification_model END"
    )
    assert await count(api) == 3
    assert await count(api, label="ROSE") == 1
    assert await count(api, notBy="seeing") == 1
    assert await count(api, notBy="older") == 2
    assert await count(api, notBy="older", label="LEAF") == 0
    assert await over(api, await ask(api, notBy="seeing")) == (1, 1, 0, 0, 0)
    assert await runs(api) == [("a", 1), ("b", 2), ("c", 1)]
    assert await over(api, await ask(api, label="SEA")) == (1, 1, 0, 0, 0)
    assert await runs(api) == [("a", 1), ("b", 2), ("c", 2)]


async def test_a_few_at_a_time(api: Api, model: Seeing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "AT_ONCE", 1)
    model.mood = "wait"
    new = await ask(api)
    for left in (3, 2, 1):
        gate = await asyncio.wait_for(model.waiting.get(), 20)
        assert (await progress(api, new))["remaining"] == left
        kinds = await api.app.db.fetch(
            "SELECT priority FROM jobs WHERE kind = 'classification.run'"
        )
        assert [row["priority"] for row in kinds] == [-5]
        gate.set_result("answer")
        await until(lambda left=left: _remain(api, new, left - 1))  # type: ignore[misc]
    assert await over(api, new) == (3, 3, 0, 0, 0)


async def _remain(api: Api, new: str, left: int) -> bool:
    return bool((await progress(api, new))["remaining"] == left)


async def test_what_changes_meanwhile_is_skipped(api: Api, model: Seeing) -> None:
    model.mood = "wait"
    new = await ask(api)
    gates = [await asyncio.wait_for(model.waiting.get(), 20) for _ in CONTENTS]
    model.mood = "answer"
    await api.delete("a")
    await api.gone("a")
    await api.upload("b", RED)
    await until(lambda: _labelled(api, "b", "ROSE"))
    for gate in gates:
        gate.set_result("answer")
    assert await over(api, new) == (3, 1, 0, 2, 0)
    assert await api.entry("a") is None
    assert (await api.entry("b") or {})["classificationLabel"] == "ROSE"


async def _labelled(api: Api, name: str, label: str) -> bool:
    return bool((await api.entry(name) or {}).get("classificationLabel") == label)


async def test_what_changed_before_its_turn_is_skipped(
    api: Api, model: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AT_ONCE", 1)
    model.mood = "wait"
    new = await ask(api)
    gate = await asyncio.wait_for(model.waiting.get(), 20)
    model.mood = "answer"
    await api.delete("a")
    await api.gone("a")
    await api.upload("b", RED)
    await until(lambda: _labelled(api, "b", "ROSE"))
    gate.set_result("answer")
    assert await over(api, new) == (3, 1, 0, 2, 0)


async def test_one_that_fails_keeps_its_label(api: Api, model: Seeing) -> None:
    model.mood = "die"  # of the second process that dies the image is to blame
    new = await ask(api, label="ROSE")
    await until(lambda: _tried(api))
    await api.hurry()
    assert await over(api, new) == (1, 0, 1, 0, 0)
    entry = await api.entry("a") or {}
    assert (entry["classificationStatus"], entry["classificationLabel"]) == ("done", "ROSE")
    model.mood, model.labels[RED] = "answer", ("TULIP",)
    assert await over(api, await ask(api, label="ROSE")) == (1, 1, 0, 0, 0)
    assert await _labelled(api, "a", "TULIP")


async def _tried(api: Api) -> bool:
    waits = "SELECT count(*) FROM jobs WHERE kind = 'classification.run' AND status = 'delayed'"
    return bool(await api.app.db.fetchval(waits))


async def test_one_without_a_label_gets_another_chance(api: Api, model: Seeing) -> None:
    await api.app.db.execute(
        "UPDATE uploads SET classification_status = 'failed', classification_label = NULL, "
        "classification_model = NULL WHERE name = 'a'"
    )
    assert await over(api, await ask(api, notBy="seeing")) == (1, 1, 0, 0, 0)
    assert (await api.entry("a") or {})["classificationLabel"] == "ROSE"


async def test_one_at_a_time_and_a_cancelled_one_begins_no_more(
    api: Api, model: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AT_ONCE", 1)
    model.mood = "wait"
    new = await ask(api)
    gate = await asyncio.wait_for(model.waiting.get(), 20)
    refused = await api.client.post(PATH, json={})
    assert (refused.status_code, new in refused.json()["error"]) == (409, True)
    for _ in range(2):
        answer = await api.client.post(f"{PATH}/{new}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    gate.set_result("answer")
    await api.idle()
    assert await over(api, new, "cancelled") == (3, 1, 0, 0, 0)
    assert sum(run for _, run in await runs(api)) == 4
    model.mood = "answer"
    assert await over(api, await ask(api)) == (3, 3, 0, 0, 0)


async def test_of_nobody_elses(api: Api) -> None:
    await api.app.db.execute("UPDATE uploads SET organization = 'other' WHERE name = 'a'")
    assert await over(api, new := await ask(api)) == (2, 2, 0, 0, 0)
    await api.app.db.execute("UPDATE reclassifications SET organization = 'other'")
    assert (await api.client.get(f"{PATH}/{new}")).status_code == 404
    assert (await api.client.post(f"{PATH}/{new}/cancel")).status_code == 404


POINTS = points_of("classification.reclassify.", without=["classification.reclassify.add"])


@pytest.mark.parametrize("point", POINTS)
async def test_a_death_anywhere_changes_nothing_for_good(
    api: Api, model: Seeing, point: str
) -> None:
    armed = failpoints.arm(point, "raise@1")
    new = await ask(api)

    async def hurried() -> bool:
        await api.hurry()
        return bool((await progress(api, new))["status"] == "done")

    await until(hurried)
    assert armed.passes, "the work never came by"
    assert await over(api, new) == (3, 3, 0, 0, 0)
    assert await runs(api) == [("a", 2), ("b", 2), ("c", 2)]
    assert await api.letters() == []


async def test_a_death_while_asking_leaves_nothing(api: Api) -> None:
    failpoints.arm("classification.reclassify.add", "raise@1")
    with pytest.raises(FailpointError):
        await api.app.registry.get(service.Reclassify).ask("default", ReclassifyFilter(), {})
    assert await over(api, await ask(api)) == (3, 3, 0, 0, 0)
