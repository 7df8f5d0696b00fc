"""What a client is told when something is wrong on our side: what it can do, and never where our
things are."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from safelight import app  # noqa: F401 - knows every feature, and so every error
from safelight.errors import SafelightError
from safelight.http import errors
from safelight.objects.store import StoreUnavailable
from safelight.quotas.lifecycle import Meter, refusal
from safelight.web.pages.errors import render_error_page

INSIDE = "http://minio.internal:9000/bucket/default/a.jpg answered 403: AccessDenied"


def kinds(base: type[SafelightError] = SafelightError) -> Iterator[type[SafelightError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def of_ours() -> Iterator[type[SafelightError]]:
    """Those that are not about the request; one that asks for more has all its words itself, and
    so has one that says it all."""
    for kind in kinds():
        plain = kind.__init__ is SafelightError.__init__ and not kind.says_it_all
        if kind.status >= 500 and plain:
            yield kind


def failing(error: SafelightError) -> httpx.AsyncClient:
    api = FastAPI()
    errors.install(api, development=False, render_page=render_error_page, unavailable_as={})

    @api.get("/")
    async def fail() -> None:
        raise error

    transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://here")


@pytest.mark.parametrize("kind", sorted(set(of_ours()), key=str))
async def test_where_things_are_is_for_the_log(kind: type[SafelightError]) -> None:
    with capture_logs() as lines:
        async with failing(kind(INSIDE)) as client:
            answer = await client.get("/")
    assert answer.status_code == kind.status
    assert answer.json() == {"error": kind.default_message(), "code": kind.code}
    assert kind.default_message().endswith((".", "?"))
    [line] = lines
    assert (line["event"], line["error"]) == ("request failed", INSIDE)


async def test_what_a_store_says_is_for_the_log_but_for_its_code() -> None:
    with capture_logs() as lines:
        async with failing(StoreUnavailable.because(INSIDE, "AccessDenied")) as client:
            answer = await client.get("/")
    words = f"{StoreUnavailable.default_message()} (AccessDenied)"
    assert answer.json() == {"error": words, "code": "UNAVAILABLE"}
    assert INSIDE in [line.get("reason") for line in lines]


@pytest.mark.parametrize(
    ("meter", "most", "words", "cure"),
    [
        (Meter.STORED_BYTES, 156_000, "The limit is 152 KiB.", "delete something"),
        (Meter.UPLOADS, 1, "may send 1 upload per minute.", "in the next minute"),
        (Meter.GENERATIONS, 10_000, "may order 10,000 artifacts per day.", "tomorrow (UTC)"),
        (Meter.SUBMISSIONS, 2, "may make 2 submissions per day.", "tomorrow (UTC)"),
    ],
)
async def test_a_client_hears_the_limit_and_the_cure(
    meter: Meter, most: int, words: str, cure: str
) -> None:
    seconds = None if meter is Meter.STORED_BYTES else 30
    async with failing(refusal(meter, most, seconds)) as client:
        answer = await client.get("/")
    assert answer.status_code == (507 if seconds is None else 429)
    said = answer.json()["error"]
    assert words in said
    assert cure in said
    assert "ask an operator of this server" in said
    assert answer.headers.get("retry-after") == (None if seconds is None else "30")
