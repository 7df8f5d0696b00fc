"""The frame around every request: limits, ids, headers, and answers that arrive."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest
from starlette.requests import Request

from inprocess import Application, application
from safelight.admin.services import Engine
from safelight.errors import RangeNotSatisfiable
from safelight.http.content import parse_range
from safelight.http.errors import as_safelight_error
from safelight.sandbox.lockdown import Protections, offered


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as app:
        yield app


@pytest.fixture
async def client(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    async with app.client() as client:
        yield client


async def test_request_ids(client: httpx.AsyncClient) -> None:
    own = await client.get("/healthz", headers={"x-request-id": "abc-1"})
    assert own.headers["x-request-id"] == "abc-1"
    hostile = await client.get("/healthz", headers={"x-request-id": "a b\tc" * 50})
    assert hostile.headers["x-request-id"].startswith("req_")


async def test_a_method_nobody_takes(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/healthz")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert "GET" in answer.headers["allow"]


async def test_a_body_over_its_limit(client: httpx.AsyncClient) -> None:
    for content in (b"{" + b" " * 2_000_000, chunks()):
        answer = await client.post(
            "/api/organizations/default/tokens",
            content=content,
            headers={"content-type": "application/json"},
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "FILE_TOO_LARGE")


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(40):
        yield b" " * 65536


async def test_json_routes_want_json(client: httpx.AsyncClient) -> None:
    path = "/api/organizations/default/tokens"
    text = await client.post(path, content=b"role=member")
    assert (text.status_code, text.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    broken = await client.post(path, content=b"{", headers={"content-type": "application/json"})
    assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")
    wrong = await client.post(path, json={"role": 7})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_REQUEST")
    nul = await client.post(path, json={"role": "member", "name": "a\x00b"})
    assert nul.status_code == 422


async def test_openapi_is_for_those_who_are_signed_in(app: Application) -> None:
    async with app.client(None) as nobody, app.client() as somebody:
        assert (await nobody.get("/api/openapi.json")).status_code == 401
        paths = (await somebody.get("/api/openapi.json")).json()["paths"]
    assert "/api/upload" in paths


async def test_readiness_and_metrics(client: httpx.AsyncClient, app: Application) -> None:
    assert (await client.get("/readyz")).json()["ready"] is True
    text = (await client.get("/metrics")).text
    assert "safelight_http_requests_total" in text
    async with app.client(None) as nobody:
        assert (await nobody.get("/metrics")).status_code == 401


async def test_ready_tells_what_the_first_child_found(app: Application) -> None:
    """Not what was guessed: the server is as it is, whatever could be expected of it."""
    sandbox = app.registry.get(Engine).sandbox
    async with app.client(None) as nobody:
        guessed = (await nobody.get("/readyz")).json()["children"]["lacking"]
        sandbox._tell(Protections(False, False, False, False, False, False))
        told = (await nobody.get("/readyz")).json()["children"]["lacking"]
    assert (guessed, len(told)) == (offered().missing, 6)


async def test_details_only_in_development(database_url: str, tmp_path: Path) -> None:
    async with application(database_url, tmp_path, development=True) as app, app.client() as client:
        body = (await client.get("/nowhere")).json()
    assert set(body) == {"error", "code", "details"}
    json.dumps(body)


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=5-", (5, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=8-99", (8, 10)),
        ("bytes=0-1,4-5", None),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("lines=1-2", None),
    ],
)
def test_ranges(header: str | None, part: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == part


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=11-12", "bytes=-0"])
def test_ranges_without_a_byte(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, 10)


@pytest.mark.parametrize(
    ("method", "lost", "words"),
    [
        ("GET", ConnectionResetError(), "nothing was changed"),
        ("DELETE", asyncpg.LockNotAvailableError(), "nothing was changed"),
        ("DELETE", ConnectionResetError(), "may have been done"),
        ("POST", TimeoutError(), "may have been done"),
    ],
)
def test_an_unavailable_database_says_what_it_can(method: str, lost: Exception, words: str) -> None:
    scope = {"type": "http", "method": method, "path": "/", "headers": [], "query_string": b""}
    error = as_safelight_error(Request(scope), lost)
    assert (error.code, error.status) == ("UNAVAILABLE", 503)
    assert words in error.message
