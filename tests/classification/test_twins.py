"""Groups of images that look alike."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from classification.seeing import Seeing
from harness import picture
from inprocess import application
from library.api import ORGANIZATION, Api, Json
from safelight.classification.similar import repo
from safelight.classification.similar.twins import Twins
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError

RED, PINK, GREEN, BLUE = (picture(colour=colour) for colour in ("red", "pink", "green", "blue"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Seeing:
    model = Seeing(
        directions={RED: (1, 0, 0), PINK: (1, 0.2, 0), GREEN: (0, 1, 0), BLUE: (0, 0, 1)},
        labels={RED: ("ROSE", "FLOWER"), PINK: ("FLOWER", "ROSE"), GREEN: ("LEAF",)},
    )
    monkeypatch.setattr("safelight.wiring.build_classifier", lambda *_: model)
    monkeypatch.setattr("safelight.classification.jobs.schedules", lambda _: ())
    return model


@pytest.fixture
async def api(model: Seeing, database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


async def labelled(api: Api, **named: bytes) -> None:
    for name, content in named.items():
        await api.upload(name, content)
        await api.settled(name)
    await api.idle()


async def compare(api: Api) -> None:
    await api.app.registry.get(Twins).compare()


async def page(api: Api, **query: str | int) -> Json:
    answer = await api.client.get(f"{ORGANIZATION}/duplicates", params=query)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def groups(api: Api) -> list[list[str]]:
    """After a look at what is new."""
    await compare(api)
    return [[one["name"] for one in group["items"]] for group in (await page(api))["items"]]


async def test_copies_and_what_looks_alike_are_found(api: Api) -> None:
    await labelled(api, a=RED, b=GREEN, c=PINK, d=BLUE, e=GREEN)
    assert await groups(api) == [["b", "e"], ["a", "c"]]
    same, alike = (await page(api))["items"]
    assert (same["count"], same["identical"], alike["identical"]) == (2, True, False)
    assert {one["similarity"] for one in same["items"]} == {1.0}
    assert {one["similarity"] for one in alike["items"]} == {0.9805}
    entry = await api.entry("c") or {}
    shown = {k: v for k, v in alike["items"][1].items() if k != "similarity"}
    assert shown == {k: v for k, v in entry.items() if k != "labels"}


async def test_later_ones_join_and_two_groups_become_one(api: Api, model: Seeing) -> None:
    far = picture(colour="maroon")
    model.directions[far] = (1, 0.75, 0)
    model.labels[far] = ("ROSE",)
    between = picture(colour="tomato")
    model.directions[between] = (1, 0.4, 0)
    model.labels[between] = ("ROSE",)
    await labelled(api, a=RED, b=RED, c=far, d=far)
    assert await groups(api) == [["c", "d"], ["a", "b"]]
    await labelled(api, e=RED)
    assert await groups(api) == [["c", "d"], ["a", "b", "e"]]
    await labelled(api, f=between)
    await labelled(api, g=far)
    found = await groups(api)
    assert sorted(name for group in found for name in group) == list("abcdefg")


async def test_the_deleted_and_the_replaced_leave_their_group(api: Api) -> None:
    await labelled(api, a=RED, b=RED, c=RED, d=RED)
    assert await groups(api) == [["a", "b", "c", "d"]]
    await api.delete("a")
    await api.gone("a")
    await labelled(api, b=BLUE)
    assert [g["count"] for g in (await page(api))["items"]] == [2]
    assert await groups(api) == [["c", "d"]]
    await api.delete("c")
    await api.gone("c")
    assert await groups(api) == []


async def test_pages(api: Api) -> None:
    await labelled(api, a=RED, b=RED, c=GREEN, d=GREEN, e=BLUE, f=BLUE)
    await compare(api)
    first = await page(api, limit=2)
    assert [g["items"][0]["name"] for g in first["items"]] == ["e", "c"]
    rest = await page(api, limit=2, cursor=first["nextCursor"])
    assert [g["items"][0]["name"] for g in rest["items"]] == ["a"]
    assert rest["nextCursor"] is None


async def test_twice_is_once_and_nothing_new_is_nothing_to_do(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await labelled(api, a=RED, b=RED)
    assert await groups(api) == [["a", "b"]]
    rows = await api.app.db.fetch("SELECT * FROM twins ORDER BY name")
    await api.app.db.execute("DELETE FROM twins_known")
    await compare(api)
    assert await api.app.db.fetch("SELECT * FROM twins ORDER BY name") == rows

    async def never(*_: object, **__: object) -> int:
        raise AssertionError

    monkeypatch.setattr(repo, "compare", never)
    await compare(api)


async def test_one_whose_embedding_is_to_come_is_waited_for(api: Api) -> None:
    await labelled(api, a=RED, b=PINK)
    await api.app.db.execute(
        "WITH gone AS (DELETE FROM embeddings WHERE name = 'b' RETURNING name) "
        "UPDATE uploads SET drawn = 3 FROM gone WHERE uploads.name = gone.name"
    )
    assert await groups(api) == []
    await api.app.db.execute("UPDATE uploads SET drawn = drawn | 8 WHERE name = 'b'")
    assert await groups(api) == [], "it will never have one, and is like nobody"
    await labelled(api, c=PINK)
    assert await groups(api) == [["b", "c"]], "its bytes are the same"


async def test_models_and_organizations_are_not_mixed(api: Api) -> None:
    await labelled(api, a=RED, b=PINK, c=PINK)
    await api.app.db.execute(
        "UPDATE embeddings SET model = 'older', vector = '[1,0]' WHERE name = 'a'"
    )
    await api.app.db.execute("UPDATE uploads SET organization = 'other' WHERE name = 'c'")
    assert await groups(api) == []


async def test_without_vectors_copies_are_found(api: Api) -> None:
    await api.app.db.execute("DROP TABLE embeddings")
    await labelled(api, a=RED, b=PINK, c=RED)
    assert await groups(api) == [["a", "c"]]


async def test_it_waits_for_runs(api: Api, model: Seeing) -> None:
    await labelled(api, a=RED, b=RED)
    model.mood = "wait"
    await api.upload("c", RED)
    gate = await asyncio.wait_for(model.waiting.get(), 20)
    looking = asyncio.create_task(compare(api))
    await asyncio.wait([looking], timeout=0.1)
    assert not looking.done()
    gate.set_result("answer")
    await looking


async def test_a_death_loses_a_batch_which_is_compared_again(api: Api) -> None:
    await labelled(api, a=RED, b=RED)
    failpoints.arm("classification.similar.compare", "raise@1")
    with pytest.raises(FailpointError):
        await compare(api)
    assert await groups(api) == [["a", "b"]]
