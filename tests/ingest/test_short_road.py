"""The short road to POST /api/upload and the long one: whatever is sent, nobody can tell which of them
it went, by the answer, the log or the counts."""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from harness import TOKEN, picture
from inprocess import Application, application
from safelight.accounts.access import Grant, Role
from safelight.accounts.guard import COOKIE
from safelight.accounts.tokens import Tokens
from safelight.app import BODY_LIMITS, create_api, create_app
from safelight.http.frame import Frame
from safelight.http.short_road import ShortRoad
from safelight.infra.db import AWAY
from safelight.infra.metrics import Metrics
from safelight.ingest.accept import Ingest
from safelight.ingest.contract import StorageFull
from safelight.settings import Settings

MOST = 64 * 1024
PICTURE = picture()
SUM = hashlib.sha256(PICTURE).hexdigest()
VARY = {"imageId", "uploadedAt", "requestId", "tempPath", "durationMs", "x-request-id"}
NUMBER = re.compile(r"req_\w+")  # of a request, for whoever looks into the log


def form(content: bytes = PICTURE, name: str = "file") -> bytes:
    head = f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="a.jpg"\r\n\r\n'
    return head.encode() + content + b"\r\n--b--\r\n"


@dataclass(frozen=True)
class Sent:
    content: bytes = form()
    path: str = "/api/upload"
    method: str = "POST"
    token: str | None = TOKEN
    headers: dict[str, str] = field(default_factory=dict)


SENT = {
    "plain": Sent(),
    "its checksum": Sent(headers={"x-content-sha256": SUM}),
    "its checksum in capitals": Sent(headers={"X-Content-SHA256": SUM.upper()}),
    "another checksum": Sent(headers={"x-content-sha256": "0" * 64}),
    "an empty checksum": Sent(headers={"x-content-sha256": ""}),
    "a request's id": Sent(headers={"x-request-id": "mine-1"}),
    "no credential": Sent(token=None),
    "a bad token": Sent(token="slt_" + "x" * 40),
    "another scheme": Sent(token=None, headers={"authorization": f"Basic {TOKEN}"}),
    "a viewer": Sent(token="viewer"),
    "a cookie from nowhere": Sent(token=None, headers={"cookie": f"{COOKIE}=x"}),
    "a cookie beside the token": Sent(headers={"cookie": f"{COOKIE}=x"}),
    "no picture": Sent(form(b"words")),
    "nothing": Sent(form(b"")),
    "too large": Sent(form(PICTURE + bytes(4 * MOST))),
    "another part": Sent(form(name="other")),
    "half a form": Sent(form()[:-9]),
    "no form": Sent(headers={"content-type": "image/jpeg"}),
    "no body": Sent(b""),
    "a page's wish": Sent(form(b"words"), headers={"accept": "text/html"}),
    "a name": Sent(path="/api/upload?name=b.jpg"),
    "a bad name": Sent(path="/api/upload?name=/"),
    "a wrong choice": Sent(path="/api/upload?onConflict=never"),
    "an organization": Sent(path="/api/upload?organizationId=other"),
    "an empty query": Sent(path="/api/upload?"),
    "a slash": Sent(path="/api/upload/"),
    "an escape": Sent(path="/api/uploa%64"),
    "another method": Sent(method="PUT"),
    "only looking": Sent(method="GET", content=b""),
}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, max_upload_bytes=MOST) as app:
        yield app


def short(app: Application) -> ASGIApp:
    return create_app(app.registry)


def long(app: Application) -> ASGIApp:
    api = create_api(development=app.registry.get(Settings).development)
    return Frame(api, app.registry, BODY_LIMITS)


async def seen(app: Application, road: Callable[[Application], ASGIApp], sent: Sent) -> Any:
    """All that can be seen of one request, but for what differs between any two."""
    metrics = app.registry.get(Metrics)
    headers = {"content-type": "multipart/form-data; boundary=b", **sent.headers}
    if sent.token is not None:
        headers["authorization"] = f"Bearer {sent.token}"
    before = counted(metrics)
    transport = httpx.ASGITransport(road(app), raise_app_exceptions=False)
    with capture_logs() as lines:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answer = await client.request(
                sent.method, sent.path, content=sent.content, headers=headers
            )
    after = counted(metrics)
    body = answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
    return {
        "status": answer.status_code,
        "headers": without(dict(answer.headers)),
        "body": without(body) if isinstance(body, dict) else NUMBER.sub("", body),
        "lines": [without(line) for line in lines],
        "counts": {key: after[key] - before.get(key, 0) for key in after},
    }


def without(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in VARY}


def counted(metrics: Metrics) -> dict[str, float]:
    return {
        f"{sample.name}{sample.labels}": sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and sample.name.startswith("safelight_")
    }


async def viewer(app: Application) -> str:
    tokens = app.registry.get(Tokens)
    _, secret = await tokens.make("default", Grant(Role.VIEWER), name="v", maker=None)
    return secret


@pytest.mark.parametrize("name", SENT)
async def test_nobody_can_tell(app: Application, name: str) -> None:
    sent = SENT[name]
    if sent.token == "viewer":
        sent = Sent(token=await viewer(app))
    by_short, by_long = await seen(app, short, sent), await seen(app, long, sent)
    assert by_short == by_long
    assert by_short["lines"][-1]["event"] == "request"


@pytest.mark.parametrize("error", [RuntimeError("oh"), StorageFull(), AWAY[0]()], ids=repr)
@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_what_fails_inside(
    app: Application, monkeypatch: pytest.MonkeyPatch, error: Exception, accept: str
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Ingest, "accept", fail)
    sent = Sent(headers={"accept": accept, "accept-encoding": "identity"})
    by_short, by_long = await seen(app, short, sent), await seen(app, long, sent)
    assert by_short["status"] >= 500
    assert by_short == by_long
    assert [line["event"] for line in by_short["lines"]].count("[Upload Error]") == 1


async def test_which_road_is_taken() -> None:
    """The framework is asked for nothing that is plain, and for all that is not."""
    api = create_api(development=False)
    gone: list[str] = []

    async def framework(scope: Scope, _: Receive, __: Send) -> None:
        gone.append(scope["path"])

    async def nothing(*_: object) -> Any:
        return framework

    road = ShortRoad(api, "/api/upload", nothing)
    road._api = framework  # type: ignore[assignment]
    plain: dict[str, Any] = {"type": "http", "method": "POST", "path": "/api/upload"}
    plain |= {"query_string": b"", "root_path": ""}
    for change in (
        {"type": "websocket"}, {"method": "GET"}, {"path": "/api/uploads"}, {"query_string": b"a"},
        {"root_path": "/api"},
    ):  # fmt: skip
        scope = plain | change
        await road(scope, None, None)  # type: ignore[arg-type]
        assert "route" not in scope
    scope = dict(plain)
    await road(scope, None, None)  # type: ignore[arg-type]
    assert scope["route"].path == "/api/upload"
    assert len(gone) == 6
