"""The process ends at each step of projecting, classifying and deleting; the next one goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from emulators.workers_ai import Vendor, refusal, workers_ai
from harness import eventually, picture, running
from inprocess import application
from library.api import EVENTS_TOKEN, LIBRARY, Api, created
from library.processes import Workers
from points import points_of
from safelight.classification.jobs import RUN
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.queue.queue import Queue
from safelight.testing.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quiet")]
LATER = "2039-01-01T00:00:00.000Z"
RED, GREEN, BLUE = (picture(colour=colour) for colour in ("red", "green", "blue"))
BROKEN = picture("JPEG", (200, 200))[:700]


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with workers_ai() as vendor:
        yield vendor


@pytest.fixture
def workers(database_url: str, tmp_path: Path, vendor: Vendor) -> Iterator[Workers]:
    settings = {
        "SAFELIGHT_CLASSIFIER": "workers-ai",
        "SAFELIGHT_WORKERS_AI_URL": vendor.url,
        "SAFELIGHT_LOG_FORMAT": "json",
    }
    made = Workers(database_url, tmp_path, settings)
    yield made
    made.stop()
    print(made.said())


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with (
        application(database_url, tmp_path, events_token=EVENTS_TOKEN) as app,
        app.client() as client,
    ):
        yield Api(app, client)


async def replace_the_dead(api: Api, workers: Workers, points: list[str]) -> None:
    """A new worker for one that died, armed with the points nobody died at yet.

    Nobody waits here for leases or for later tries, of which the next is the last, and no job
    becomes a suspect.
    """
    left = set(points)
    while (code := workers.started[-1].poll()) in {None, EXIT_CODE}:
        if code == EXIT_CODE:
            left -= {point for point in left if f"ended at {point}\n" in workers.said()}
            workers.fork(",".join(f"{point}=exit" for point in left))
            await api.app.db.execute("UPDATE jobs SET lease_until = now() WHERE status = 'running'")
        await api.app.db.execute(
            "UPDATE jobs SET run_at = now(), deaths = 0, attempts = $1 WHERE status = 'delayed'",
            RUN.retry.attempts - 1,
        )
        api.app.registry.get(Queue).wake()
        await asyncio.sleep(0.1)
    raise AssertionError(f"a worker ended with {code}")


async def journey(api: Api, vendor: Vendor) -> None:
    """Passes every point there is: each line of it is the way to some of them."""
    image = await api.upload("a.jpg", RED)
    first = await api.settled("a.jpg")
    await api.tell(created("a.jpg", LATER, image["checksum"]))
    await api.told("a.jpg", "classification_workflow_skipped")
    # A run that failed is started anew by a second event of the same upload.
    asked, vendor.instead = len(vendor.requests), refusal(400, 5006)
    image = await api.upload("b.jpg", GREEN)
    failed = await api.settled("b.jpg", "failed")
    await api.tell(created("b.jpg", failed["eventTime"], image["checksum"]))
    letters = await api.dead(2)
    vendor.instead = None
    del vendor.requests[asked:]
    # Both are for nothing once the name has another image. It takes the general road, as library and
    # index do not agree on the name.
    await api.app.db.execute("DELETE FROM uploads WHERE name = 'b.jpg'")
    await api.upload("b.jpg", BLUE)
    await api.settled("b.jpg")
    for number, letter in enumerate(letters, 1):
        assert await api.redrive(letter) == 202
        await dropped(api, "b.jpg", number)
    await api.upload("c.jpg", BROKEN)
    await api.settled("c.jpg", "failed")
    assert await api.delete("a.jpg") == 202
    await api.gone("a.jpg")
    await upkeep(api)
    assert first["classificationLabel"] == "PERSIAN CAT"


async def dropped(api: Api, name: str, times: int) -> None:
    async def check() -> bool:
        return (await api.types(name)).count("run_dropped") >= times

    await until(check)


async def upkeep(api: Api) -> None:
    """The hourly job, which removes a tombstone that nothing can be late for any more."""
    await api.app.db.execute(
        "INSERT INTO tombstones (organization, name, event_time, source, buried_at) "
        "VALUES ('default', 'old.jpg', 1, 'r2', 1)"
    )
    await api.app.db.execute("SELECT job_enqueue('admin.upkeep', '', '{}')")

    async def check() -> bool:
        left = "SELECT count(*) FROM tombstones WHERE name = 'old.jpg'"
        return not await api.app.db.fetchval(left)

    await until(check)


# A new step is covered as soon as it exists. Deleting is the server's, below; test_reconcile.py has
# what only the look at everything writes.
ELSEWHERE = [
    "library.delete", "library.reconcile.say_failed", "library.reconcile.charge",
    "library.delete_aged", *points_of("library.retention."),  # test_retention.py
    "classification.count_child_death",  # test_damaged.py: a remote model has no child
    "classification.try_again",  # test_standing.py: it is the server's
    # classification/test_forgetting.py and test_twins.py: what is done at times, or asked for.
    "classification.forget_runs", "classification.similar.compare",
    # classification/test_reclassify.py
    "classification.reclassify.add", "classification.reclassify.count_ended",
    "classification.reclassify.end", "classification.reclassify.go_on",
    "classification.reclassify.progress",
    # classification/test_twins.py, classification/test_forgetting.py
    "classification.similar.compare", "classification.forget_runs",
    # classification/test_backfill.py
    "classification.drawn", "classification.draw_no_more", "classification.enqueue_drawing",
    # test_thumbnails.py
    "library.put_thumbnail", "library.delete_thumbnail", *points_of("library.thumbnails."),
]  # fmt: skip
POINTS = points_of("library.", "classification.", without=ELSEWHERE)


@pytest.mark.parametrize("points", [POINTS[at::2] for at in range(2)], ids=str)
async def test_killed_at(points: list[str], api: Api, workers: Workers, vendor: Vendor) -> None:
    vendor.next(refusal(500, 1000))
    workers.fork(",".join(f"{point}=exit" for point in points))
    await until(workers.all_ready, 50)
    travelling = asyncio.create_task(journey(api, vendor))
    helping = asyncio.create_task(replace_the_dead(api, workers, points))
    done, left = await asyncio.wait([travelling, helping], return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.wait([travelling, helping])
    for task in done:
        task.result()
    passed = [point for point in points if f"ended at {point}\n" in workers.said()]
    assert passed == points, "nothing here passes the others"
    assert len(workers.started) == len(points) + 1
    await check_the_end(api)
    # What was asked and answered is not asked again, unless the answer died with the worker.
    assert len(vendor.requests) == 3 + ("classification.save_reply" in points)


async def check_the_end(api: Api) -> None:
    found = await api.entry("b.jpg")
    assert found
    assert (found["classificationStatus"], found["classificationLabel"]) == ("done", "PERSIAN CAT")
    assert await api.content("b.jpg") == BLUE
    assert await api.entry("a.jpg") is None
    updated = await api.messages("classification_updated")
    assert len(updated) == len({message["idempotencyKey"] for message in updated}) == 2
    assert len(await api.messages("upload_deleted")) == 1
    assert await api.letters() == []
    left = "SELECT count(*) FROM jobs WHERE kind ~ '^(ingest.offload|objects.deliver|classif)'"
    assert await api.app.db.fetchval(left) == 0


def test_killed_while_deleting(database_url: str, tmp_path: Path) -> None:
    """Nothing was deleted, and whoever asks again is heard."""
    settings = {"SAFELIGHT_DATABASE_URL": database_url}
    entry = f"{LIBRARY}/a.jpg"
    with running(tmp_path, SAFELIGHT_FAILPOINTS="library.delete=exit", **settings) as server:
        assert server.upload(RED, "a.jpg").status_code == 201
        with server.client() as client:
            eventually(lambda: client.get(entry).status_code == 200)
            with pytest.raises(httpx.RemoteProtocolError):
                client.delete(entry)
        assert server.process.wait(20) == EXIT_CODE
    with running(tmp_path, **settings) as server, server.client() as client:
        assert client.get(f"{entry}/content").content == RED
        assert client.delete(entry).status_code == 202
        eventually(lambda: client.get(entry).status_code == 404)
        story = client.get(f"{entry}/history").json()["items"]
        assert [line["type"] for line in story].count("upload_delete_requested") == 1
