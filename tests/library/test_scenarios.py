"""The stories the library was made for, told over its public interface."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emulators.workers_ai import refusal, result, workers_ai
from harness import picture
from inprocess import application
from library.api import EVENTS_TOKEN, Api, created, deleted
from library.scripted import Scripted, label_of
from safelight.infra import failpoints
from safelight.testing.waiting import until

pytestmark = pytest.mark.usefixtures("quiet")
RED, BLUE = picture(colour="red"), picture(colour="blue")


@pytest.fixture
async def api(database_url: str, tmp_path: Path, model: Scripted) -> AsyncIterator[Api]:
    async with (
        application(database_url, tmp_path, worker=True, events_token=EVENTS_TOKEN) as app,
        app.client() as client,
    ):
        yield Api(app, client)


async def test_an_event_that_comes_again_is_classified_once(api: Api, model: Scripted) -> None:
    image = await api.upload("a.jpg", RED)
    first = await api.settled("a.jpg")
    event = created("a.jpg", first["eventTime"], image["checksum"])
    for times in range(1, 4):
        await api.tell(event)
        await api.told("a.jpg", "classification_workflow_skipped", times)
    assert await api.skipped("a.jpg") == ["duplicate"] * 3
    assert await api.entry("a.jpg") == first
    assert len(model.asked) == 1
    [told] = await api.messages("classification_updated")
    assert told["idempotencyKey"] == first["idempotencyKey"]
    assert told["classificationLabel"] == label_of(RED)


async def test_one_upload_told_with_a_later_time_moves_the_time(api: Api, model: Scripted) -> None:
    image = await api.upload("a.jpg", RED)
    first = await api.settled("a.jpg")
    await api.tell(created("a.jpg", "2039-01-01T00:00:00Z", image["checksum"]))
    [line] = await api.told("a.jpg", "classification_workflow_skipped")
    assert line["reason"] == "same_upload"
    assert line["beatenBy"]["idempotencyKey"] == first["idempotencyKey"]
    # A time in whole seconds is the end of its second.
    assert await api.entry("a.jpg") == first | {"eventTime": "2039-01-01T00:00:00.999Z"}
    assert len(model.asked) == 1
    # Our own store outranks it: the name can still be replaced and deleted.
    await api.upload("a.jpg", BLUE)
    await api.settled("a.jpg", label=label_of(BLUE))
    assert await api.delete("a.jpg") == 202
    await api.gone("a.jpg")


async def test_a_result_that_comes_late_is_dropped(api: Api, model: Scripted) -> None:
    model.mood = "wait"
    await api.upload("a.jpg", RED)
    gate = await model.waiting.get()
    old = await api.entry("a.jpg")
    assert old
    model.mood = "answer"
    await api.upload("a.jpg", BLUE)
    new = await api.settled("a.jpg")
    gate.set_result("answer")
    await api.idle()
    assert await api.entry("a.jpg") == new
    assert new["classificationLabel"] == label_of(BLUE)
    [line] = await api.told("a.jpg", "run_dropped")
    assert (line["reason"], line["beatenBy"]) == (
        "superseded",
        {"eventTime": new["eventTime"], "idempotencyKey": new["idempotencyKey"]},
    )
    told = await api.messages("classification_updated")
    assert [message["idempotencyKey"] for message in told] == [new["idempotencyKey"]]


@pytest.mark.parametrize("point", ["library.mark", "unit.close"])
async def test_a_start_that_fails_half_way_is_made_good(
    point: str, api: Api, model: Scripted
) -> None:
    failpoints.arm(point, "raise@1")
    await api.upload("a.jpg", RED)
    await api.settled("a.jpg")
    assert len(model.asked) == 1
    assert (await api.types("a.jpg")).count("classification_workflow_started") == 1


async def test_a_run_the_queue_does_not_know_is_started_anew(api: Api, model: Scripted) -> None:
    """Our notes say that it is under way; the queue knows better."""
    model.mood = "wait"
    image = await api.upload("a.jpg", RED)
    gate = await model.waiting.get()
    found = await api.entry("a.jpg")
    assert found
    await api.app.db.execute("DELETE FROM jobs WHERE kind = 'classification.run'")
    model.mood = "answer"
    event = created("a.jpg", found["eventTime"], image["checksum"])
    await api.tell(event)
    await api.settled("a.jpg")
    gate.set_result("answer")
    await api.tell(event)
    await api.told("a.jpg", "classification_workflow_skipped")
    started = await api.messages("classification_workflow_started")
    assert [message["run"] for message in started] == [1, 2]
    assert len(await api.messages("classification_updated")) == 1


async def test_a_run_under_way_is_not_started_again(api: Api, model: Scripted) -> None:
    model.mood = "wait"
    image = await api.upload("a.jpg", RED)
    gate = await model.waiting.get()
    found = await api.entry("a.jpg")
    assert found
    assert found["classificationStatus"] == "running"
    await api.tell(created("a.jpg", found["eventTime"], image["checksum"]))
    await api.told("a.jpg", "classification_workflow_skipped")
    gate.set_result("answer")
    await api.settled("a.jpg")
    assert len(model.asked) == 1


async def test_a_model_that_is_away(database_url: str, tmp_path: Path) -> None:
    """Waited for, however often it is asked in vain; the history tells of it once."""
    with workers_ai() as vendor:
        vendor.next(*[refusal(500, 1000, "out of order")] * 9)
        async with (
            application(
                database_url, tmp_path, worker=True,
                classifier="workers-ai", workers_ai_url=vendor.url,
            ) as app,
            app.client() as client,
        ):  # fmt: skip
            api = Api(app, client)
            await api.upload("a.jpg", RED)

            async def asked_again() -> bool:
                await api.hurry()
                return len(vendor.requests) == 10

            await until(asked_again)
            done = await api.settled("a.jpg")
            assert done["classificationLabel"] == "PERSIAN CAT"
            told = await api.messages("classification_error")
            assert [message["final"] for message in told] == [False]
            assert await api.letters() == []


async def test_a_model_that_fails(database_url: str, tmp_path: Path) -> None:
    """Tried again, then buried with its error; redriven, it is done. Nobody hears of a success
    before there is one."""
    with workers_ai() as vendor:
        vendor.next(*[result([{"label": "CAT", "score": 7}])] * 4)
        async with (
            application(
                database_url, tmp_path, worker=True,
                classifier="workers-ai", workers_ai_url=vendor.url,
            ) as app,
            app.client() as client,
        ):  # fmt: skip
            api = Api(app, client)
            await api.upload("a.jpg", RED)

            async def buried() -> Any:
                await api.hurry()
                return await api.letters()

            [letter] = await until(buried)
            assert (letter["attempts"], letter["error"]["code"]) == (4, "MODEL_ERROR")
            assert len(vendor.requests) == 4
            failed = await api.settled("a.jpg", "failed")
            assert failed["classificationLabel"] is None
            told = await api.messages("classification_error")
            assert [message["final"] for message in told] == [False, False, False, True]
            assert await api.messages("classification_updated") == []
            assert await api.redrive(letter) == 202
            done = await api.settled("a.jpg")
            assert done["classificationLabel"] == "PERSIAN CAT"
            assert done["classificationModel"] == "@cf/microsoft/resnet-50"
            assert len(vendor.requests) == 5
            assert await api.letters() == []


async def test_a_remote_answer_is_not_asked_for_twice(database_url: str, tmp_path: Path) -> None:
    with workers_ai() as vendor:
        async with (
            application(
                database_url, tmp_path, worker=True,
                classifier="workers-ai", workers_ai_url=vendor.url,
            ) as app,
            app.client() as client,
        ):  # fmt: skip
            api = Api(app, client)
            failpoints.arm("classification.apply", "raise@1")
            await api.upload("a.jpg", RED)

            async def done() -> Any:
                await api.hurry()
                found = await api.entry("a.jpg")
                return found and found["classificationStatus"] == "done"

            await until(done)
            assert len(vendor.requests) == 1
            assert len(await api.messages("classification_updated")) == 1


async def test_a_new_upload_replaces_the_label_and_the_old_event_changes_nothing(
    api: Api,
) -> None:
    red = await api.upload("a.jpg", RED)
    first = await api.settled("a.jpg")
    await api.upload("a.jpg", BLUE)
    second = await api.settled("a.jpg", label=label_of(BLUE))
    assert second["idempotencyKey"] != first["idempotencyKey"]
    await api.tell(created("a.jpg", first["eventTime"], red["checksum"]))
    [line] = await api.told("a.jpg", "classification_workflow_skipped")
    assert line["reason"] == "stale"
    assert line["beatenBy"] == {
        "eventTime": second["eventTime"],
        "idempotencyKey": second["idempotencyKey"],
    }
    # Later than anything, but of bytes that are no longer there.
    await api.tell(created("a.jpg", "2039-01-01T00:00:00Z", red["checksum"]))
    await api.told("a.jpg", "classification_workflow_skipped", 2)
    assert await api.skipped("a.jpg") == ["stale", "superseded"]
    assert await api.entry("a.jpg") == second


async def test_deleting_twice(api: Api) -> None:
    await api.upload("a.jpg", RED)
    first = await api.settled("a.jpg")
    assert await api.delete("a.jpg") == 202
    await api.gone("a.jpg")
    [line] = await api.messages("upload_deleted")
    assert line["eventTime"] > first["eventTime"]
    # The same event again, from outside and to the millisecond, tells nobody anything.
    await api.tell(deleted("a.jpg", line["eventTime"]))
    [dropped] = await api.told("a.jpg", "event_dropped")
    assert (dropped["reason"], dropped["beatenBy"]["eventTime"]) == ("duplicate", line["eventTime"])
    assert len(await api.messages("upload_deleted")) == 1
    assert await api.delete("a.jpg") == 202
    await api.idle()
    assert await api.entry("a.jpg") is None
    assert await api.content("a.jpg") is None
    assert await api.letters() == []


async def test_a_create_that_comes_after_the_delete_brings_nothing_back(api: Api) -> None:
    image = await api.upload("a.jpg", RED)
    found = await api.settled("a.jpg")
    await api.delete("a.jpg")
    await api.gone("a.jpg")
    await api.tell(created("a.jpg", found["eventTime"], image["checksum"]))
    [line] = await api.told("a.jpg", "classification_workflow_skipped")
    [gone] = await api.messages("upload_deleted")
    assert line["reason"] == "stale"
    assert line["beatenBy"] == {"eventTime": gone["eventTime"], "idempotencyKey": None}
    await api.tell(created("a.jpg", "2039-01-01T00:00:00Z", image["checksum"]))
    [missing] = await api.told("a.jpg", "event_dropped")
    assert missing["reason"] == "object_missing"
    assert await api.entry("a.jpg") is None


async def test_deleting_while_the_model_works(api: Api, model: Scripted) -> None:
    model.mood = "wait"
    await api.upload("a.jpg", RED)
    gate = await model.waiting.get()
    assert await api.delete("a.jpg") == 202
    assert await api.content("a.jpg") is None
    await api.gone("a.jpg")
    gate.set_result("answer")
    await api.idle()
    assert await api.entry("a.jpg") is None
    assert await api.messages("classification_updated") == []
    [line] = await api.told("a.jpg", "run_dropped")
    assert line["reason"] == "deleted"


async def test_a_delete_overtakes_the_upload(
    database_url: str, tmp_path: Path, model: Scripted
) -> None:
    """Asked for while the bytes still wait for storage; what is uploaded afterwards stays."""
    async with application(database_url, tmp_path) as app, app.client() as client:
        api = Api(app, client)
        before = await api.upload("a.jpg", RED)
        assert await api.delete("a.jpg") == 202
        alone = await api.upload("b.jpg", RED)
        assert await api.delete("b.jpg") == 202
        after = await api.upload("a.jpg", BLUE)
    async with (
        application(database_url, tmp_path, worker=True) as app,
        app.client() as client,
    ):
        api = Api(app, client)
        for image in (before, alone, after):
            await api.stored(image)
        found = await api.settled("a.jpg")
        await api.idle()
        assert found["imageId"] == after["imageId"]
        assert found["classificationLabel"] == label_of(BLUE)
        assert await api.entry("b.jpg") is None
        history = (await client.get(f"/api/images/{before['imageId']}/history")).json()["items"]
        assert (history[-1]["to"], history[-1]["reason"]) == ("STORED", "deleted")
        assert history[-1]["beatenBy"]["eventTime"]


async def test_a_worker_that_fails_once_while_deleting(api: Api) -> None:
    await api.upload("a.jpg", RED)
    await api.settled("a.jpg")
    failpoints.arm("library.remove", "raise@1")
    assert await api.delete("a.jpg") == 202
    await api.gone("a.jpg")
    assert len(await api.messages("upload_deleted")) == 1
