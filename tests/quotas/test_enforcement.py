"""Limits over HTTP: sixty-four at once never get past one, and who is refused leaves nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import TOKEN, picture
from inprocess import Application, application
from safelight import wiring
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock
from safelight.quotas.lifecycle import in_bytes
from safelight.testing.waiting import until

QUOTAS = "/api/organizations/default/quotas"
LIMITS = "/api/v1/admin/organizations/default/quotas"
LIBRARY = "/api/organizations/default/uploads"
MANY = 64
DAY_MS = 24 * 3600 * 1000
IMAGE = picture("PNG")
SMALL = {"prompt": "p", "width": 64, "height": 64}


class AtNoon(SystemClock):
    """Of today, and it stays so: no minute and no day ends in the middle of a test."""

    def __init__(self) -> None:
        now = super().now_ms()
        self._noon = now - now % DAY_MS + DAY_MS // 2

    def now_ms(self) -> int:
        return self._noon


@pytest.fixture
async def app(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Application]:
    monkeypatch.setattr(wiring, "SystemClock", AtNoon)
    async with application(database_url, tmp_path, worker=True) as app:
        yield app


@pytest.fixture
async def client(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    async with app.client() as client:
        yield client


async def limit(client: httpx.AsyncClient, **limits: int | None) -> None:
    answer = await client.put(LIMITS, json=limits)
    assert answer.status_code == 200, answer.text


async def quota(client: httpx.AsyncClient, meter: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(QUOTAS)).json()[meter]
    return found


async def used(client: httpx.AsyncClient, meter: str) -> int:
    return int((await quota(client, meter))["used"])


async def upload(client: httpx.AsyncClient, name: str, data: bytes = IMAGE) -> httpx.Response:
    return await client.post(
        "/api/upload", params={"name": name}, files={"file": ("a.png", data, "image/png")}
    )


async def begin_upload(
    app: Application, headers: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """And sends no byte of the body."""
    host, _, port = app.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = (
        f"POST /api/upload HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n"
        f"{headers}\r\n"
    )
    writer.write(request.encode())
    return reader, writer


async def all_at_once(requests: list[Any]) -> Counter[int]:
    return Counter(answer.status_code for answer in await asyncio.gather(*requests))


async def stored(db: Database) -> int:
    """Counted from the things themselves."""
    return int(
        await db.fetchval(
            """
            SELECT coalesce(sum(size), 0)::bigint FROM (
                SELECT size FROM objects WHERE present AND (
                    organization = 'default' OR key ~ '^(submissions|renditions)/')
                UNION ALL SELECT size_bytes FROM images WHERE status = 'INGESTED'
                UNION ALL SELECT size_bytes FROM artifacts
            ) AS kept
            """
        )
    )


async def test_uploads_per_minute(
    app: Application, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    await limit(client, uploadsPerMinute=5)
    seen = await all_at_once([upload(client, f"{n}.png") for n in range(MANY)])
    assert seen == {201: 5, 429: MANY - 5}
    assert await app.db.fetchval("SELECT count(*) FROM images") == 5
    files = [path for path in (tmp_path / "ingest").rglob("img_*") if path.is_file()]
    assert len(files) <= 5
    await limit(client, uploadsPerMinute=1)
    refused = await upload(client, "more.png")
    assert refused.json()["code"] == "RATE_LIMITED"
    assert "1 upload per minute" in refused.json()["error"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_uploads_that_are_refused_once_they_were_read_count_too(
    client: httpx.AsyncClient,
) -> None:
    """Whoever sends wrong bytes again and again is stopped before they are read."""
    await limit(client, uploadsPerMinute=3)
    wrong = {"x-content-sha256": 64 * "0"}
    files = {"file": ("a.png", IMAGE, "image/png")}
    answers = [await client.post("/api/upload", files=files, headers=wrong) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [400, 400, 400, 400, 429]
    assert answers[-1].json()["code"] == "RATE_LIMITED"
    assert await used(client, "uploadsPerMinute") == 3
    assert (await client.get("/api/organizations/default/uploads")).json()["items"] == []


async def test_uploads_that_are_refused_for_room_count_too(client: httpx.AsyncClient) -> None:
    """There is some left, so each of them is read before it turns out to be too little."""
    await limit(client, storedBytes=len(IMAGE) - 1, uploadsPerMinute=3)
    seen = [(await upload(client, "a.png")).status_code for _ in range(5)]
    assert seen == [507, 507, 507, 429, 429]
    assert await used(client, "uploadsPerMinute") == 3


async def test_an_upload_that_breaks_off_counts(
    app: Application, client: httpx.AsyncClient
) -> None:
    _, writer = await begin_upload(app)
    writer.write(b"--b\r\n")
    await writer.drain()
    writer.close()
    await until(lambda: _counts(client, 1))


async def test_what_was_not_read_or_is_our_fault_does_not_count(client: httpx.AsyncClient) -> None:
    assert (await upload(client, "../no.png")).status_code == 422
    failpoints.arm("ingest.write", "enospc@1")
    assert (await upload(client, "full.png")).status_code == 507
    assert await used(client, "uploadsPerMinute") == 0


async def test_a_refusal_is_told_even_if_it_cannot_be_counted(client: httpx.AsyncClient) -> None:
    armed = failpoints.arm("quotas.charge", "enospc@1")
    assert (await upload(client, "text.png", b"just some text")).status_code == 400
    assert armed.passes
    assert await used(client, "uploadsPerMinute") == 0


async def test_bytes_stored_and_given_back(app: Application, client: httpx.AsyncClient) -> None:
    await limit(client, storedBytes=3 * len(IMAGE) + 1)
    seen = await all_at_once([upload(client, f"{n}.png") for n in range(MANY)])
    assert seen == {201: 3, 507: MANY - 3}
    refused = await upload(client, "more.png")
    assert refused.json()["code"] == "QUOTA_EXCEEDED"
    assert "delete something" in refused.json()["error"]
    assert f"The limit is {in_bytes(3 * len(IMAGE) + 1)}." in refused.json()["error"]
    names = await app.db.fetch("SELECT name FROM images")
    await until(lambda: _all_stored(app.db))
    assert await used(client, "storedBytes") == await stored(app.db) == 3 * len(IMAGE)
    assert (await client.delete(f"{LIBRARY}/{names[0]['name']}")).status_code < 300
    await until(lambda: _uses(client, 2 * len(IMAGE)))
    assert (await upload(client, "fits.png")).status_code == 201
    assert (await upload(client, "fits.png")).status_code == 507


async def test_replacing_counts_what_is_there_in_the_end(
    app: Application, client: httpx.AsyncClient
) -> None:
    for size in (10, 200, 50):
        data = picture("PNG", (size, size))
        assert (await upload(client, "one.png", data)).status_code == 201
        await until(lambda: _all_stored(app.db))
    await until(lambda: _uses(client, len(data)))
    assert await stored(app.db) == len(data)


async def test_generations_per_day(app: Application, client: httpx.AsyncClient) -> None:
    await limit(client, generationsPerDay=10)
    wanted = {"kind": "image", "model": "studio/aurora", "input": SMALL, "count": 3}
    seen = await all_at_once([client.post("/generations", json=wanted) for _ in range(MANY)])
    assert seen == {202: 3, 429: MANY - 3}
    assert await app.db.fetchval("SELECT count(*) FROM generations_inflight") == 3
    assert await used(client, "generationsPerDay") == 9
    refused = await client.post("/generations", json=wanted)
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert (await client.post("/generations", json={**wanted, "count": 1})).status_code == 202
    await until(lambda: _artifacts(app.db, 10))
    assert await used(client, "storedBytes") == await stored(app.db) > 0
    await limit(client, storedBytes=1)
    full = await client.post("/generations", json={**wanted, "count": 1})
    assert (full.status_code, full.json()["code"]) == (507, "QUOTA_EXCEEDED")
    artifact = await app.db.fetchval("SELECT id FROM artifacts")
    assert (await client.delete(f"/artifacts/{artifact}")).status_code < 300
    assert await used(client, "storedBytes") == await stored(app.db)


async def test_submissions_per_day(app: Application, client: httpx.AsyncClient) -> None:
    await upload(client, "one.png")
    await until(lambda: _all_stored(app.db))
    await limit(client, submissionsPerDay=2)
    wanted = {"source": {"upload": "one.png"}}
    asked = [client.post("/api/v1/submissions", json=wanted) for _ in range(MANY)]
    assert await all_at_once(asked) == {202: 2, 429: MANY - 2}
    assert await app.db.fetchval("SELECT count(*) FROM submissions") == 2
    pinned = "SELECT count(*) FROM objects WHERE key LIKE 'submissions/%'"
    assert await app.db.fetchval(pinned) == 2


async def test_what_is_submitted_and_deleted_goes_on_counting(
    app: Application, client: httpx.AsyncClient
) -> None:
    """Its copy is there until the submission is over, and a while longer."""
    await limit(client, storedBytes=3 * len(IMAGE))
    for name in ("a.png", "b.png"):
        assert (await upload(client, name)).status_code == 201
        await until(lambda: _all_stored(app.db))
        sent = await client.post("/api/v1/submissions", json={"source": {"upload": name}})
        assert sent.status_code == 202, sent.text
        assert (await client.delete(f"{LIBRARY}/{name}")).status_code < 300
    await until(lambda: _uses_what_is_stored(app.db, client))
    assert await used(client, "storedBytes") >= 2 * len(IMAGE)
    seen = [(await upload(client, name)).status_code for name in ("c.png", "d.png")]
    assert 507 in seen
    await until(lambda: _uses_what_is_stored(app.db, client))


async def test_who_was_refused_is_refused_before_the_bytes_are_read(
    app: Application, client: httpx.AsyncClient
) -> None:
    await limit(client, storedBytes=len(IMAGE))
    assert [(await upload(client, "a.png")).status_code for _ in range(2)] == [201, 507]
    reader, writer = await begin_upload(app, "Expect: 100-continue\r\n")
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 507")
    writer.close()
    await limit(client, storedBytes=None)
    assert (await upload(client, "a.png")).status_code == 201


async def test_admins_see_every_meter(client: httpx.AsyncClient) -> None:
    await limit(client, submissionsPerDay=7, uploadsPerMinute=0)
    shown = (await client.get(QUOTAS)).json()
    assert shown == (await client.get(LIMITS)).json()
    assert shown["storedBytes"] == {
        "limit": 1024**4, "own": False, "used": 0, "resetsAt": None,
    }  # fmt: skip
    assert shown["uploadsPerMinute"]["limit"] is None
    assert (shown["submissionsPerDay"]["limit"], shown["submissionsPerDay"]["own"]) == (7, True)
    assert shown["generationsPerDay"]["resetsAt"].endswith("T00:00:00.000Z")
    wrong = await client.put(LIMITS, json={"storedBytes": -1})
    assert wrong.status_code == 422
    nowhere = "/api/v1/admin/organizations/nowhere/quotas"
    assert (await client.get(nowhere)).status_code == 404
    assert (await client.put(nowhere, json={})).status_code == 404


async def _all_stored(db: Database) -> bool:
    return bool(await db.fetchval("SELECT bool_and(status = 'STORED') FROM images"))


async def _uses(client: httpx.AsyncClient, amount: int) -> bool:
    return await used(client, "storedBytes") == amount


async def _counts(client: httpx.AsyncClient, uploads: int) -> bool:
    return await used(client, "uploadsPerMinute") == uploads


async def _uses_what_is_stored(db: Database, client: httpx.AsyncClient) -> bool:
    return await used(client, "storedBytes") == await stored(db)


async def _artifacts(db: Database, count: int) -> bool:
    return int(await db.fetchval("SELECT count(*) FROM artifacts")) == count
