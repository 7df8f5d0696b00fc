"""The headers of every kind of answer, and what the log says of a proxy nobody named."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from harness import picture
from inprocess import application
from safelight.http.frame import SECURITY_HEADERS

PATHS = (
    "/healthz", "/readyz", "/metrics", "/login", "/nowhere", "/app/default/upload",
    "/api/organizations/default/uploads", "/api/organizations/other/uploads",
    "/api/organizations/default/uploads/a.jpg/content", "/api/images/none", "/public/none",
    "/api/openapi.json",
)  # fmt: skip


@pytest.mark.parametrize("public_url", [None, "http://here.example", "HTTPS://Here.example"])
async def test_every_answer_is_dressed(
    database_url: str, tmp_path: Path, public_url: str | None
) -> None:
    async with (
        application(database_url, tmp_path, public_url=public_url) as app,
        app.client() as client,
    ):
        await client.post("/api/upload", files={"file": ("a.jpg", picture())})
        answers = [await client.get(path) for path in PATHS]
        answers += [await client.request(m, "/api/upload") for m in ("POST", "PUT", "OPTIONS")]
        answers += [await client.get("/nowhere", headers={"accept": "text/html"})]
    assert {answer.status_code for answer in answers} >= {200, 404, 405}
    for answer in answers:
        missing = [name for name, _ in SECURITY_HEADERS if name.decode() not in answer.headers]
        assert not missing, answer.url
        assert answer.headers["x-request-id"]
        assert answer.headers["cache-control"]
        secure = public_url is not None and public_url.startswith("HTTPS")
        assert ("strict-transport-security" in answer.headers) is secure


@pytest.mark.parametrize(
    ("trusted", "warnings"),
    [((), 1), (("10.9.9.9",), 1), (("127.0.0.1",), 0), (("127.0.0.0/8",), 0), (("*",), 0)],
)
async def test_a_proxy_nobody_named(
    database_url: str, tmp_path: Path, trusted: tuple[str, ...], warnings: int
) -> None:
    """Nobody, or somebody else: behind a container's bridge it has another address than on paper."""
    async with (
        application(database_url, tmp_path, trusted_proxies=trusted) as app,
        app.client(None) as client,
    ):
        with capture_logs() as lines:
            for _ in range(3):
                await client.get("/healthz", headers={"X-Forwarded-For": "192.0.2.1"})
    told = [line for line in lines if line["event"].endswith("is not trusted")]
    assert [line["address"] for line in told] == ["127.0.0.1"] * warnings
