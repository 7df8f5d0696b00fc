"""Values no database, range or index can hold: a refusal in words, never an error of ours."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inprocess import Application, application
from safelight.http.content import parse_range

HUGE = (2**63, 10**30, "9" * 5000)
OVER = "/api/organizations/default"
INTEGERS = (
    f"{OVER}/activity?after=",
    f"{OVER}/activity?limit=",
    f"{OVER}/spending?since=",
    f"{OVER}/spending?until=",
    f"{OVER}/uploads?limit=",
)
IDS = (
    f"{OVER}/dead-letters/%s/redrive",
    f"{OVER}/dead-letters/%s/discard",
    "/api/v1/admin/dead-letters/%s/redrive",
    "/api/v1/admin/dead-letters/%s/discard",
    "/admin/queue/dead-letters/%s/redrive",
    "/admin/queue/dead-letters/%s/discard",
)
# Short as they come, long as they are looked for: each of these letters becomes eighteen.
EXPANDING = (
    "ﷺ" * 500,
    "㌖" * 500,
    "ΐ" * 500,
    "ﷺ " * 250,
    "İ" * 500,
    "a" * 500,
    "'" * 500,
    "\\" * 500,
    "🖼" * 500,
)


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as app:
        yield app


async def test_numbers_beyond_every_column(app: Application) -> None:
    async with app.client() as client:
        for path in INTEGERS:
            for number in HUGE:
                answer = await client.get(f"{path}{number}")
                assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST"), path
        for path in IDS:
            for number in HUGE:
                answer = await client.post(path % number)
                assert answer.status_code in {403, 404, 422}, (path, answer.text)


async def test_words_that_grow(app: Application) -> None:
    async with app.client() as client:
        for text in EXPANDING:
            answer = await client.get(f"{OVER}/uploads", params={"q": text})
            assert answer.status_code in {200, 422}, answer.text


def test_a_range_of_thousands_of_digits_is_no_range() -> None:
    many = "9" * 5000
    for header in (f"bytes={many}-", f"bytes=-{many}", f"bytes=0-{many}", f"bytes={many}-{many}"):
        assert parse_range(header, 10) is None


async def test_every_number_a_client_may_send_has_an_end(app: Application) -> None:
    async with app.client() as client:
        described = (await client.get("/api/openapi.json")).json()
    endless = sorted(set(_endless(described)))
    assert not endless


def _endless(described: dict[str, Any]) -> Iterator[str]:
    schemas = described["components"]["schemas"]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    continue  # an id that no row can have is one that is not there
                yield from _unbounded(parameter["schema"], f"{where} {parameter['name']}", schemas)
            for content in operation.get("requestBody", {}).get("content", {}).values():
                yield from _unbounded(content["schema"], where, schemas)


def _unbounded(schema: Any, where: str, schemas: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "integer" and not {"maximum", "exclusiveMaximum"} & schema.keys():
        yield where
    for name, inner in schema.get("properties", {}).items():
        yield from _unbounded(inner, f"{where} {name}", schemas)
    for inner in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _unbounded(inner, where, schemas)


async def test_a_range_nobody_can_count_is_ignored(app: Application) -> None:
    async with app.client(None) as nobody:
        answer: httpx.Response = await nobody.get(
            "/public/sub_none", headers={"range": f"bytes={'9' * 5000}-"}
        )
    assert answer.status_code == 404
