"""A server that many tests send uploads to, and what has to be true of it after each of them."""

import asyncio
from collections.abc import Iterator

import pytest

from conftest import _clone, _numbers, with_database
from harness import Server, eventually, picture, running
from ingest.sending import LIMIT


@pytest.fixture(scope="session")
def server(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("upload")
    with running(
        directory, "--no-worker",
        SAFELIGHT_DATABASE_URL=fresh_database(model_url),
        SAFELIGHT_MAX_UPLOAD_BYTES=str(LIMIT),
    ) as server:  # fmt: skip
        yield server


def fresh_database(model_url: str) -> str:
    name = f"upload_{next(_numbers)}"
    asyncio.run(_clone(model_url, name))
    return with_database(model_url, name)


@pytest.fixture
def nothing_left_behind(server: Server) -> Iterator[None]:
    """After every test, refused or not: no file without a record, no hidden file, and the next
    good upload works."""
    before = set(server.files())
    yield
    eventually(lambda: not [name for name in server.files() if name.startswith(".")])
    answer = server.upload(picture("PNG"), "after.png")
    assert answer.status_code == 201
    new = {name.split(".")[0] for name in set(server.files()) - before}
    eventually(lambda: new <= {line["imageId"] for line in server.logged("[Upload]")})
