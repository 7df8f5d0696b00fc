"""Workers in processes of their own share the work, and one of them is killed in the middle."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from library.processes import Workers
from safelight.testing.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quiet")]
IMAGES = 60


@pytest.fixture
def workers(database_url: str, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(database_url, tmp_path, {"SAFELIGHT_CLASSIFIER_THREADS": "1"})
    yield made
    made.stop()
    print(made.said())


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with application(database_url, tmp_path) as app, app.client() as client:
        yield Api(app, client)


async def at_work(api: Api) -> set[str]:
    """Who holds classifications at this moment."""
    rows = await api.app.db.fetch(
        "SELECT DISTINCT owner FROM jobs WHERE kind = 'classification.run' AND status = 'running'"
    )
    return {row["owner"] for row in rows}


async def done(api: Api) -> int:
    count: int = await api.app.db.fetchval(
        "SELECT count(*) FROM uploads WHERE classification_status = 'done'"
    )
    return count


async def test_one_of_two_is_killed(api: Api, workers: Workers) -> None:
    victim = workers.start()
    workers.start()
    await until(workers.all_ready, 50)
    colours = [f"#{n * 4:02x}80{255 - n * 4:02x}" for n in range(IMAGES)]
    uploading = asyncio.gather(
        *(api.upload(f"{n}.png", picture("PNG", colour=c)) for n, c in enumerate(colours))
    )
    seen: set[str] = set()

    async def both_work() -> bool:
        seen.update(await at_work(api))
        return len(seen) == 2

    await until(both_work)
    victim.kill()
    assert victim.wait(10) == -9
    assert await done(api) < IMAGES, "too late: nothing was left to do"

    async def all_done() -> bool:
        return await done(api) == IMAGES

    await uploading
    await until(all_done, 50)
    updated = await api.messages("classification_updated")
    assert len(updated) == len({message["idempotencyKey"] for message in updated}) == IMAGES
    page = (await api.client.get(LIBRARY, params={"limit": 200, "status": "done"})).json()
    assert len(page["items"]) == IMAGES
    assert await api.letters() == []
