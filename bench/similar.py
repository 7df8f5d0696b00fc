"""How long it takes to find what looks like an image, among many: every embedding of the
organization is compared. Beside it, what the look for duplicates costs for each entry, which no
upload waits for."""

import asyncio
import time

import asyncpg
import httpx
import numpy as np

from bench import filling
from bench.database import database
from bench.filling import ORGANIZATION
from bench.measure import Shown, Table, median, verdict
from bench.server import serving
from safelight.classification.similar.twins import LEAST
from safelight.infra.codecs import prepare

ENTRIES = 50_000
_DIMENSIONS = 1280
_KINDS = 500  # of pictures: those of one look alike, more or less
_BATCH = 2_000
_BUDGET_MS = 200
_ASKED = 40


def run(entries: int = ENTRIES) -> list[Shown]:
    with database() as bench:
        with (
            serving("--no-worker", files=bench.files, SAFELIGHT_DATABASE_URL=bench.url) as server,
            server.client() as client,
        ):
            asyncio.run(filling.fill(bench.url, 0, entries))
            asyncio.run(_embed(bench.url))
            took = sorted(_ask(client, number) for number in range(1, _ASKED * 100, 100))
        each = asyncio.run(_compare(bench.url))
    table = Table(
        f"Growth: what looks like an image, among {entries:,} of one organization",
        "asked", "p50", "slowest", "budget", "verdict",
        says=f"Embeddings of {_DIMENSIONS} halves. Through the API, {_ASKED} different images, 20 "
        "answers each. An entry's look for its duplicates is asked of PostgreSQL; a job does it.",
    )  # fmt: skip
    met = verdict(took[-1], ("≤", _BUDGET_MS))
    table.add(
        "…/similar", f"{median(took):.0f} ms", f"{took[-1]:.0f} ms", f"≤ {_BUDGET_MS} ms", met
    )
    table.add("its duplicates", f"{median(each):.1f} ms", f"{each[-1]:.1f} ms", "", "")
    return [table]


def _ask(client: httpx.Client, number: int) -> float:
    path = f"/api/organizations/{ORGANIZATION}/uploads/photo-{number:08}.jpg/similar"
    began = time.perf_counter()
    answer = client.get(path)
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) == 20, answer.text
    return took * 1000


async def _embed(url: str) -> None:
    """As a network gives them: no number is negative, and the length is 1."""
    dice = np.random.default_rng(1)
    kinds = np.maximum(dice.normal(0.2, 0.5, (_KINDS, _DIMENSIONS)), 0)
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        await prepare(connection)
        rows = await connection.fetch("SELECT name, idempotency_key FROM uploads ORDER BY name")
        for at in range(0, len(rows), _BATCH):
            batch = rows[at : at + _BATCH]
            chosen = kinds[dice.integers(_KINDS, size=len(batch))]
            vectors = np.maximum(chosen + dice.normal(0, 0.3, chosen.shape), 0)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            await connection.copy_records_to_table(
                "embeddings",
                records=[
                    (ORGANIZATION, row["name"], row["idempotency_key"], "bench", bytes(vector))
                    for row, vector in zip(batch, vectors.astype("<f2"), strict=True)
                ],
            )
        await connection.execute("VACUUM ANALYZE embeddings")
    finally:
        await connection.close()


async def _compare(url: str) -> list[float]:
    connection = await asyncpg.connect(url)
    try:
        took = []
        for row in await connection.fetch(
            "SELECT name, idempotency_key, run FROM uploads WHERE classification_status = 'done' "
            "ORDER BY idempotency_key LIMIT $1",
            _ASKED,
        ):
            began = time.perf_counter()
            await connection.fetchrow(
                "SELECT * FROM classification_nearest($1, $2, $3, $4, $5)",
                ORGANIZATION, *row, LEAST,
            )  # fmt: skip
            took.append((time.perf_counter() - began) * 1000)
    finally:
        await connection.close()
    return sorted(took)


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
