"""A server that does everything itself dies at each step between an upload and its label. What it had
handed over to itself dies with it; the next one goes on, once."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from emulators.workers_ai import workers_ai
from inprocess import application
from library.api import Api
from nursery import bear
from safelight.infra.failpoints import EXIT_CODE

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quiet")]
# Those at which something is in one process's hands alone: a job that was leased as it was recorded
# (twice), bytes nobody refers to, a run that was leased as it began. Workers die at the others
# (test_crash_points.py, ingest/test_offload_kills.py).
POINTS = ["ingest.recorded", "queue.run", "library.arrive", "classification.save_reply"]
COLOURS = ["red", "green", "blue", "white"]
NAMES = ["a.jpg", "b.jpg"]


async def test_killed_at_each_step(database_url: str, tmp_path: Path) -> None:
    """Names are uploaded again and again, whatever has become of the one before."""
    with workers_ai() as vendor:
        where = {"classifier": "workers-ai", "workers_ai_url": vendor.url}
        environment = where | {"database_url": database_url, "data_dir": str(tmp_path)}
        for number, point in enumerate(POINTS):
            arguments = (environment, NAMES[number % len(NAMES)], COLOURS[number], point)
            child = bear("library.processes:upload_and_work", *arguments)
            assert await asyncio.to_thread(child.wait, 50) == EXIT_CODE, point
            await forgive(database_url)
        async with (
            application(database_url, tmp_path, worker=True, **where) as app,
            app.client() as client,
        ):
            api = Api(app, client)
            await api.idle()
            await check_the_end(api)


async def forgive(url: str) -> None:
    """Nobody waits for leases here, and no job becomes a suspect."""
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE jobs SET lease_until = now(), deaths = 0 WHERE owner <> ''")
    await connection.execute("UPDATE jobs SET deaths = 0, run_at = now() WHERE status = 'delayed'")
    await connection.close()


async def check_the_end(api: Api) -> None:
    """All that were recorded are stored, the newest of each name is its entry, each was classified
    once at most, and told of in every step once."""
    images = await api.app.db.fetch("SELECT * FROM images ORDER BY ordinal")
    assert len(images) >= len(POINTS) - 1, "the timetable's jobs run as well"
    assert {image["status"] for image in images} == {"STORED"}
    newest = {image["name"]: str(image["idempotency_key"]) for image in images}
    for name, marker in newest.items():
        entry = await api.settled(name)
        assert entry["idempotencyKey"] == marker
    for kind in ("classification_updated", "classification_workflow_started"):
        told = [message["idempotencyKey"] for message in await api.messages(kind)]
        assert len(told) == len(set(told)), kind
        assert set(newest.values()) <= set(told), kind
    ends = "SELECT data ->> 'imageId' FROM activity WHERE data ->> 'to' = 'STORED'"
    stored = [row[0] for row in await api.app.db.fetch(ends)]
    assert sorted(stored) == sorted(image["id"] for image in images)
    assert await api.letters() == []
    unheard = "SELECT count(*) FROM object_events WHERE delivered_at IS NULL"
    assert await api.app.db.fetchval(unheard) == 0
