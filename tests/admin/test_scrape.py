"""What /metrics tells about the queues, and when the database is away."""

from pathlib import Path

import httpx

from faults.relay import relay
from harness import picture
from inprocess import application
from safelight.testing.waiting import until

OVER = "/api/organizations/default"


async def value(client: httpx.AsyncClient, name: str) -> float | None:
    lines = (await client.get("/metrics")).text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), None)


async def test_queues_dead_letters_and_outcomes(database_url: str, tmp_path: Path) -> None:
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        await app.db.execute(
            "INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, died_at) "
            "VALUES ('old.kind', '', '', '{}', 0, 'dead', now(), now()), "
            "('old.kind', '', '', '{}', 0, 'queued', now() - interval '1 hour', NULL)"
        )
        whole = picture()
        for name, data in (("a.jpg", whole), ("broken.jpg", whole[: len(whole) // 2])):
            await client.post("/api/upload", files={"file": (name, data)})
        gone = {"name": "gone.jpg", "idempotencyKey": "gone", "run": 1}
        await app.db.execute("SELECT job_enqueue('classification.run', 'default', $1)", gone)

        async def counted() -> bool:
            outcome = 'safelight_classifications_total{{outcome="{}"}}'
            ends = ("done", "failed", "dropped")
            return [await value(client, outcome.format(end)) for end in ends] == [1, 1, 1]

        await until(counted)
        assert await value(client, 'safelight_jobs{kind="old.kind",state="queued"}') == 1
        running = 'safelight_jobs{kind="ingest.offload",state="running"}'
        assert await value(client, running) is not None  # of when the queues were last read
        assert (await value(client, 'safelight_jobs_oldest_seconds{kind="old.kind"}') or 0) >= 3600
        assert await value(client, 'safelight_dead_letters{kind="old.kind"}') == 1
        assert await value(client, "safelight_connections")
        assert await value(client, "safelight_database_up") == 1


async def test_a_database_that_is_away_is_told(database_url: str, tmp_path: Path) -> None:
    async with (
        relay(database_url) as (between, through),
        application(through, tmp_path, metrics_open=True) as app,
        app.client(None) as client,
    ):
        between.refuse()
        between.cut()
        assert await value(client, "safelight_database_up") == 0
        assert await value(client, "safelight_connections")
