"""Bodies longer than most, through the whole frame: what a route takes reaches it, and no more."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from inprocess import Application, application
from safelight.accounts.guard import guarded_routes
from safelight.app import BODY_LIMITS, create_api
from safelight.infra.scratch import Scratch
from submissions.pictures import as_kind

PICTURES = "/api/organizations/default/blocklist/pictures"
MOST = 3 * 1024 * 1024


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, max_upload_bytes=MOST) as app:
        yield app


@pytest.fixture
async def client(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    async with app.client() as client:
        yield client


def large_jpeg() -> bytes:
    """Two megabytes; most of them say nothing."""
    return as_kind("JPEG", "daisy", quality=95) + bytes(2 * 1024**2)


async def rule_out(client: httpx.AsyncClient, data: bytes) -> httpx.Response:
    return await client.post(PICTURES, files={"file": ("no.jpg", data, "image/jpeg")})


def test_every_limit_is_of_a_route_that_takes_a_body() -> None:
    """One that is misspelt would limit nothing."""
    taking = {
        route.path
        for route in guarded_routes(create_api(development=False))
        if route.method in {"POST", "PUT", "PATCH"}
    }
    assert BODY_LIMITS.keys() <= taking


async def test_a_picture_of_megabytes_can_be_ruled_out(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    data = large_jpeg()
    assert 1.5 * 1024**2 < len(data) < MOST
    answer = await rule_out(client, data)
    assert answer.status_code == 201, answer.text
    assert answer.json()["checksum"] == hashlib.sha256(data).hexdigest()
    assert answer.json()["fingerprint"]
    assert not [path for path in tmp_path.glob("tmp*") if path.is_file()]


async def test_a_picture_beyond_the_limit_cannot(client: httpx.AsyncClient) -> None:
    for data in (large_jpeg() + bytes(MOST), bytes(MOST + 1)):
        answer = await rule_out(client, data)
        assert (answer.status_code, answer.json()["code"]) == (413, "FILE_TOO_LARGE")
        assert "over the limit of 3 MiB" in answer.json()["error"]


async def test_a_body_that_never_ends_is_cut_off_around_a_small_file_too(
    client: httpx.AsyncClient,
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n'
        for _ in range(MOST // 65536 + 2):
            yield bytes(65536)

    kind = {"content-type": "multipart/form-data; boundary=b"}
    answer = await client.post(PICTURES, content=endless(), headers=kind)
    assert (answer.status_code, answer.json()["code"]) == (413, "FILE_TOO_LARGE")


async def test_a_picture_for_which_there_is_no_room(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Scratch, "fill", full)
    answer = await rule_out(client, large_jpeg())
    assert (answer.status_code, answer.json()["code"]) == (507, "STORAGE_ERROR")
    assert "disk is full" in answer.json()["error"]
