from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from objects.shared import shared, shared_url
from objects.stores import Bucket, Local, Watch, fresh_bucket, make_bucket, s3_server
from safelight.infra.db import Database
from safelight.objects.store import ObjectStore

_numbers = count(1)

__all__ = ["shared", "shared_url"]


@pytest.fixture
def database_url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def database(shared: Database) -> Database:
    return shared


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(params=["moto", "seaweed"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    if request.param == "seaweed":
        return fresh_bucket(request.getfixturevalue("weed"))
    return make_bucket(request.getfixturevalue("s3"), f"bucket-{next(_numbers)}")


@pytest.fixture
async def local(database: Database, tmp_path: Path) -> AsyncIterator[Local]:
    found = Local(database, tmp_path / "blobs")
    yield found
    await found.check()
    await found.store.close()


@pytest.fixture(params=["local", "moto", "seaweed", "seaweed-telling"])
async def store(
    request: pytest.FixtureRequest, database: Database, tmp_path: Path
) -> AsyncIterator[ObjectStore]:
    if request.param == "local":
        local = Local(database, tmp_path / "blobs")
        yield local.store
        await local.check()
        await local.store.close()
        return
    if request.param == "moto":
        bucket = make_bucket(request.getfixturevalue("s3"), f"bucket-{next(_numbers)}")
    else:
        bucket = fresh_bucket(request.getfixturevalue("weed"))
    told = {"events": "bucket"} if request.param.endswith("-telling") else {}
    made = bucket.store(database, tmp_path / "spool", Watch(), **told)
    yield made
    await made.close()
