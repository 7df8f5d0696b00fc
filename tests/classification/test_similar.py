"""What looks like an image."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from classification.seeing import Seeing
from harness import picture
from inprocess import application
from library.api import LIBRARY, Api

RED, GREEN, BLUE = (picture(colour=colour) for colour in ("red", "green", "blue"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Seeing:
    model = Seeing(directions={RED: (1, 0, 0), GREEN: (1, 1, 0), BLUE: (0, 0, 1)})
    monkeypatch.setattr("safelight.wiring.build_classifier", lambda *_: model)
    return model


@pytest.fixture
async def api(model: Seeing, database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        yield Api(app, client)


async def similar(api: Api, name: str, **query: int) -> httpx.Response:
    return await api.client.get(f"{LIBRARY}/{quote(name)}/similar", params=query)


async def likeness(api: Api, name: str, **query: int) -> dict[str, float]:
    answer = await similar(api, name, **query)
    assert answer.status_code == 200, answer.text
    return {item["name"]: item["similarity"] for item in answer.json()["items"]}


async def labelled(api: Api, *named: tuple[str, bytes]) -> None:
    for name, content in named:
        await api.upload(name, content)
        await api.settled(name)


async def test_the_most_similar_come_first_with_all_that_is_known_of_them(api: Api) -> None:
    await labelled(api, ("a", RED), ("b", GREEN), ("c", BLUE), ("d", RED))
    assert await likeness(api, "a") == {"d": 1.0, "b": 0.707, "c": 0.0}
    assert list(await likeness(api, "a", limit=2)) == ["d", "b"]
    [first] = (await similar(api, "a", limit=1)).json()["items"]
    entry = await api.entry("d") or {}
    assert first == {k: v for k, v in entry.items() if k != "labels"} | {"similarity": 1.0}


async def test_other_organizations_are_not_looked_at(api: Api) -> None:
    await labelled(api, ("a", RED), ("b", RED))
    await api.app.db.execute("UPDATE embeddings SET organization = 'other' WHERE name = 'b'")
    assert await likeness(api, "a") == {}


async def test_one_that_was_deleted_is_gone(api: Api) -> None:
    await labelled(api, ("a", RED), ("b", RED))
    await api.delete("b")
    await api.gone("b")
    assert await likeness(api, "a") == {}


async def test_one_that_was_replaced_does_not_show_by_its_old_looks(
    api: Api, model: Seeing
) -> None:
    await labelled(api, ("a", RED), ("b", RED))
    model.mood = "wait"
    await api.upload("b", BLUE)
    gate = await model.waiting.get()
    assert await likeness(api, "a") == {}
    model.mood = "answer"
    gate.set_result("answer")
    await api.idle()
    assert await likeness(api, "a") == {"b": 0.0}


async def test_an_embedding_that_somebody_left_behind_is_of_nobody(api: Api) -> None:
    await labelled(api, ("a", RED), ("b", RED), ("c", RED))
    await api.app.db.execute("UPDATE embeddings SET idempotency_key = 'old' WHERE name = 'b'")
    await api.app.db.execute("INSERT INTO embeddings SELECT organization, 'gone', idempotency_key, "
                             "model, vector FROM embeddings WHERE name = 'c'")  # fmt: skip
    assert await likeness(api, "a") == {"c": 1.0}
    answer = await similar(api, "b")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")


async def test_models_are_not_mixed(api: Api) -> None:
    await labelled(api, ("a", RED), ("b", RED), ("c", RED))
    await api.app.db.execute(
        "UPDATE embeddings SET model = 'older', vector = '[1,0]' WHERE name = 'b'"
    )
    assert await likeness(api, "a") == {"c": 1.0}


async def test_before_its_embedding_it_is_not_ready(api: Api, model: Seeing) -> None:
    model.mood = "wait"
    await api.upload("a", RED)
    gate = await model.waiting.get()
    answer = await similar(api, "a")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")
    model.mood = "answer"
    gate.set_result("answer")
    await api.idle()
    assert (await similar(api, "a")).status_code == 200


async def test_what_is_not_there_is_not_found(api: Api) -> None:
    assert (await similar(api, "nobody")).status_code == 404


async def test_a_database_without_vectors_says_what_to_do(api: Api) -> None:
    await api.app.db.execute("DROP TABLE embeddings")
    await labelled(api, ("a", RED))
    answer = await similar(api, "a")
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert "pgvector" in answer.json()["error"]
