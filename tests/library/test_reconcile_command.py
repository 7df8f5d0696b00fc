"""`safelight reconcile`, run in this process on a real database; and one that is killed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Run, executing
from objects.stores import Bucket, Local, Watch, make_bucket, s3_server
from safelight.accounts.first_start import first_start
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds, SystemClock
from safelight.objects.store import Facts
from safelight.settings import load

OLD_MS = 600_000
UPLOAD = Facts("image/jpeg", {"idempotencyKey": "m", "imageId": "img_1"})


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database_url: str,
    tmp_path: Path,
) -> Iterator[Run]:
    """Runs the command; gives its exit code, output and complaints."""
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", database_url)
    monkeypatch.setenv("SAFELIGHT_DATA_DIR", str(tmp_path))
    with_database(
        database_url,
        lambda db: first_start(Units(db, Bus(db, "test"), SystemClock()), load(), RandomIds()),
    )

    with executing(monkeypatch, capsys, "reconcile") as execute:
        yield execute


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Bucket:
    made = make_bucket(s3, database_url.partition("/test_")[2].partition("?")[0] + "-bucket")
    monkeypatch.setenv("SAFELIGHT_OBJECT_STORE_URL", made.url())
    return made


def with_database(url: str, act: Callable[[Database], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        db = await Database.open(url, pool_size=3)
        try:
            return await act(db)
        finally:
            await db.close()

    return asyncio.run(inside())


def old() -> Watch:
    return Watch(SystemClock().now_ms() - OLD_MS)


def test_a_library_of_files(run: Run, database_url: str, tmp_path: Path) -> None:
    assert run() == (0, "0 names were compared.\nAll agree.\n", "")

    async def put(db: Database) -> None:
        store = Local(db, tmp_path / "blobs", old()).store
        for name in ("a.jpg", "ä.jpg"):
            await store.put(f"default/{name}", _bytes(name), UPLOAD)
        await db.execute("DELETE FROM jobs")

    with_database(database_url, put)
    code, out, err = run()
    assert (code, err) == (1, "")
    assert "2 names were compared." in out
    assert "objects that the library does not have\t2\t0\tdefault/a.jpg, default/ä.jpg" in out
    assert "--repair makes the library follow" in out
    code, out, _ = run("--json", "--organization", "default")
    assert code == 1
    assert json.loads(out) == {
        "compared": 2, "foreign": 0, "underWay": 0, "unsure": 0, "agreed": False,
        "differences": {"objectWithoutEntry": {
            "count": 2, "repaired": 0, "examples": ["default/a.jpg", "default/ä.jpg"],
        }},
    }  # fmt: skip
    code, out, _ = run("--repair")
    assert code == 0
    assert "All is told again" in out
    told = "SELECT count(*) FROM jobs WHERE kind = 'objects.deliver'"
    assert with_database(database_url, lambda db: db.fetchval(told)) == 2
    code, out, _ = run()
    assert code == 0
    assert "2 differ, and are being worked on or younger" in out


def test_a_file_that_is_gone(run: Run, database_url: str, tmp_path: Path) -> None:
    run()

    async def put(db: Database) -> None:
        local = Local(db, tmp_path / "blobs", old())
        await local.store.put("default/a.jpg", _bytes("a"), UPLOAD)
        [path] = [local.blobs.path(name) for name in local.files()]
        path.write_bytes(b"")
        await db.execute("DELETE FROM jobs")
        await db.execute(
            "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, "
            "classification_status) VALUES ('default', 'a.jpg', 1, 'safelight', 'm', 'done')"
        )

    with_database(database_url, put)
    code, out, _ = run("--repair")
    assert code == 1
    assert "objects whose file is missing or cut off\t1\t0\tdefault/a.jpg" in out
    assert "upload those images again" in out
    state = with_database(database_url, lambda db: db.fetchval("SELECT state FROM blobs"))
    assert state == "damaged"


def test_a_bucket(run: Run, database_url: str, tmp_path: Path, bucket: Bucket) -> None:
    """Dated by the server, so nothing of it is old enough to be judged; a removal has no date."""
    assert run()[0] == 0

    async def put(db: Database) -> None:
        store = bucket.store(db, tmp_path / "spool", old())
        for name in ("a.jpg", "b.jpg"):
            await store.put(f"default/{name}", _bytes(name), UPLOAD)
        await db.execute("DELETE FROM jobs")
        await store.close()

    with_database(database_url, put)
    bucket.client.delete_object(Bucket=bucket.name, Key="default/a.jpg")
    bucket.client.put_object(Bucket=bucket.name, Key="default/sub/x", Body=b"x")
    code, out, _ = run()
    assert code == 1
    assert "objects of the index that the bucket does not hold\t1\t0\tdefault/a.jpg" in out
    assert "1 objects in the bucket are nobody's upload" in out
    code, out, _ = run("--repair")
    assert code == 0
    present = "SELECT array_agg(name ORDER BY name) FROM objects WHERE present"
    assert with_database(database_url, lambda db: db.fetchval(present)) == ["b.jpg"]
    # A bucket that is not there is no reason to believe that all is gone.
    bucket.client.delete_object(Bucket=bucket.name, Key="system/identity")
    code, _, err = run("--repair")
    assert (code, "not this database's" in err) == (2, True)
    assert with_database(database_url, lambda db: db.fetchval(present)) == ["b.jpg"]


def test_what_it_refuses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--organization", "nobody")[0] == 2
    assert run("--delete")[0] == 2
    nowhere = "s3://b?endpoint=http://127.0.0.1:1&region=r&access_key_id=a&secret_access_key=b"
    monkeypatch.setenv("SAFELIGHT_OBJECT_STORE_URL", nowhere)
    code, out, err = run("--repair")
    assert (code, out) == (3, "")
    assert "cannot be reached" in err
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", "postgresql://x@127.0.0.1:1/x")
    assert run()[0] == 3


def test_one_that_is_killed_goes_on(run: Run, database_url: str) -> None:
    run()

    async def many(db: Database) -> None:
        await db.execute(
            "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, "
            "classification_status) SELECT 'default', n || '.jpg', 1, 'safelight', 'm', 'done' "
            "FROM generate_series(1, 2500) AS n"
        )
        await db.execute(
            "INSERT INTO objects SELECT 'default/' || name, organization, name, true, NULL, 1, '', "
            """'{"idempotencyKey": "m"}', 'e', 1 FROM uploads"""
        )

    with_database(database_url, many)
    command = [sys.executable, "-m", "safelight", "reconcile"]
    environment = {**os.environ, "SAFELIGHT_FAILPOINTS": "kv.put=exit@2"}
    killed = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert killed.returncode > 4
    code, out, err = run()
    assert "Going on behind default/" in err
    assert (code, out) == (0, "2,500 names were compared.\nAll agree.\n")
    assert run()[2] == ""


async def _bytes(text: str) -> Any:
    yield text.encode()
