"""Ten thousand videos waiting for a webhook: rows, not memory; and their timers after a restart.

The studio is told to be silent: it takes each task and never calls back, so that all that is left
of a generation is its rows and a timer. The server is killed before the timers come due.
"""

import asyncio
import time

import asyncpg
import httpx
import psutil

from bench.database import database
from bench.measure import Table, cpu_seconds, tree
from bench.server import TOKEN, Measured, serving
from safelight.infra.postgres.server import EmbeddedPostgres

WAITING = 10_000
_WARM = 500
_AT_ONCE = 32
_BODY = {
    "model": "studio/aurora",
    "kind": "video",
    "input": {"prompt": "northern lights", "fail": "silent"},
    "tags": ["bench"],
}


def run(*, waiting: int = WAITING, idle_seconds: float = 15) -> list[Table]:
    table = Table("Generations waiting for a webhook", "what", "value", "budget")
    with database() as bench:
        postgres, files = bench.postgres, bench.files
        settings = {
            "SAFELIGHT_DATABASE_URL": postgres.url,
            "SAFELIGHT_GENERATION_VIDEO_TIMEOUT_SECONDS": "86400",
        }
        with serving(files=files, **settings) as server:
            asyncio.run(_ask(server.url, _WARM))
            _settle(postgres.url, _WARM)
            empty, nothing = _rss(server), _idle(server, postgres, idle_seconds)
            seconds = asyncio.run(_ask(server.url, waiting - _WARM))
            _settle(postgres.url, waiting)
            full, waited = _rss(server), _idle(server, postgres, idle_seconds)
            psutil.Process(server.pid).kill()
        table.add(
            f"accepting {waiting - _WARM}", f"{(waiting - _WARM) / seconds:.0f} per second", ""
        )
        table.add(
            f"RSS that {waiting} of them add", f"{(full - empty) / 2**20:.1f} MiB", "≤ 20 MiB"
        )
        table.add(
            f"CPU while {waiting} wait ({_WARM}: {nothing:.1f} %)",
            f"{waited:.1f} % of a core",
            "≤ 2 %",
        )
        asyncio.run(_come_due(postgres.url))
        with serving(files=files, **settings):
            started = time.monotonic()
            _until(postgres.url, "SELECT count(*) >= $1 FROM generations", waiting)
            table.add(
                f"{waiting} timers due after a restart, all ended",
                f"{time.monotonic() - started:.1f} s",
                "",
            )
    return [table]


async def _ask(url: str, count: int) -> float:
    """How many seconds it took to have them all accepted."""
    started, numbers = time.monotonic(), iter(range(count))

    async def client() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
            for _ in numbers:
                response = await http.post("/generations", json=_BODY)
                assert response.status_code == 202, response.text

    await asyncio.gather(*(client() for _ in range(_AT_ONCE)))
    return time.monotonic() - started


def _settle(url: str, waiting: int) -> None:
    """Until each has been submitted and nothing but timers is left."""
    submitted = """
        SELECT count(*) >= $1 AND NOT EXISTS (SELECT FROM jobs WHERE kind <> 'generations.alarm'
            AND kind LIKE 'generations.%' AND status <> 'delayed')
        FROM generation_tasks WHERE status = 'submitted'
    """
    _until(url, submitted, waiting)
    time.sleep(3)


def _until(url: str, question: str, value: int, seconds: float = 600) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(url)
        end = time.monotonic() + seconds
        try:
            while not await connection.fetchval(question, value):
                assert time.monotonic() < end, question
                await asyncio.sleep(0.1)
        finally:
            await connection.close()

    asyncio.run(ask())


async def _come_due(url: str) -> None:
    """run_at is on the database's clock, so time passes by moving the rows."""
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE jobs SET run_at = now() WHERE kind = 'generations.alarm'")
    await connection.close()


def _rss(server: Measured) -> int:
    return int(psutil.Process(server.pid).memory_info().rss)


def _idle(server: Measured, postgres: EmbeddedPostgres, seconds: float) -> float:
    """Per cent of a core, PostgreSQL included."""
    assert postgres.pid is not None

    def spent() -> float:
        assert postgres.pid is not None
        return server.cpu()[0] + cpu_seconds(tree(postgres.pid))

    before = spent()
    time.sleep(seconds)
    return (spent() - before) / seconds * 100


if __name__ == "__main__":
    for part in run():
        print(part.markdown())
