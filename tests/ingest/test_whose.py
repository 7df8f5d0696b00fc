"""A start with the wrong directory, the wrong database or a volume that is not there is refused in
words, and nothing is touched; a volume that goes away while we run makes the store wait."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from conftest import with_database
from harness import picture
from ingest.offloading import Yard
from inprocess import application
from safelight.errors import ConfigurationError
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.infra.injected import RandomIds
from safelight.infra.migrate import migrate
from safelight.infra.queue.jobs import Retry
from safelight.ingest.lifecycle import ImageStatus
from safelight.objects.blobs import Blobs
from safelight.objects.local import LocalStore
from safelight.objects.store import DamagedObject, StoreUnavailable
from safelight.testing.waiting import until


async def _administer(url: str, statement: str) -> None:
    connection = await asyncpg.connect(with_database(url, "postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def other_url(database_url: str) -> Iterator[str]:
    """Another database, with an identity of its own."""
    name = database_url.rpartition("/")[2].partition("?")[0] + "_other"
    asyncio.run(_administer(database_url, f"CREATE DATABASE {name} TEMPLATE template0"))
    url = with_database(database_url, name)
    asyncio.run(migrate(url))
    yield url
    asyncio.run(_administer(database_url, f"DROP DATABASE {name} WITH (FORCE)"))


async def upload(url: str, data_dir: Path, count: int = 1, *, worker: bool = False) -> set[str]:
    """A life of a server; the names of the files that wait in its directory afterwards."""
    async with application(url, data_dir, worker=worker) as app, app.client() as client:
        for n in range(count):
            sent = {"file": (f"{n}.jpg", picture(size=(8, 8 + n)))}
            assert (await client.post("/api/upload", files=sent)).status_code == 201

        async def stored() -> bool:
            waiting = "SELECT count(*) FROM images WHERE status <> 'STORED'"
            return bool(await app.db.fetchval(waiting) == 0)

        if worker:
            await until(stored)
    return {path.name for path in (data_dir / "ingest").glob("img_*")}


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


async def refused(url: str, data_dir: Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        async with application(url, data_dir):
            pass
    return error.value.message


async def test_another_database(database_url: str, other_url: str, tmp_path: Path) -> None:
    waiting = await upload(database_url, tmp_path, 5)
    before = contents(tmp_path)
    words = await refused(other_url, tmp_path)
    assert "belongs to another database" in words
    assert str(tmp_path / "ingest") in words
    assert contents(tmp_path) == before
    assert await upload(database_url, tmp_path, 0) == waiting


async def test_another_databases_blobs(database_url: str, other_url: str, tmp_path: Path) -> None:
    await upload(database_url, tmp_path / "first", worker=True)
    await upload(other_url, tmp_path / "second", worker=True)
    (tmp_path / "second" / "blobs").rename(tmp_path / "away")
    (tmp_path / "first" / "blobs").rename(tmp_path / "second" / "blobs")
    before = contents(tmp_path)
    assert "belongs to another database" in await refused(other_url, tmp_path / "second")
    assert contents(tmp_path) == before


async def test_a_directory_from_before_with_another_database(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    """Neither says whose it is; but one holds what the other has never heard of."""
    await upload(database_url, tmp_path)
    (tmp_path / "ingest" / ".safelight").unlink()
    before = contents(tmp_path / "ingest")
    assert "they are another database's" in await refused(other_url, tmp_path)
    assert contents(tmp_path / "ingest") == before


async def test_blobs_from_before_with_another_database(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    await upload(database_url, tmp_path, worker=True)
    for path in (tmp_path / "ingest").iterdir():
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "blobs" / ".safelight").unlink()
    before = contents(tmp_path / "blobs")
    assert "knows none of them" in await refused(other_url, tmp_path)
    assert contents(tmp_path / "blobs") == before


async def test_an_upgrade_takes_the_directories_over(database_url: str, tmp_path: Path) -> None:
    await upload(database_url, tmp_path, worker=True)
    waiting = await upload(database_url, tmp_path)
    for place in ("ingest", "blobs"):
        (tmp_path / place / ".safelight").unlink()
    db = await Database.open(database_url, pool_size=1)
    await db.execute("UPDATE identity SET blobs = NULL")
    assert await upload(database_url, tmp_path, 0) == waiting
    assert await db.fetchval("SELECT blobs_at FROM identity") is not None
    db.terminate()


async def test_a_second_machine_with_a_disk_of_its_own(database_url: str, tmp_path: Path) -> None:
    await upload(database_url, tmp_path / "first")
    words = await refused(database_url, tmp_path / "second")
    assert "is not where this database's images are" in words
    assert str(tmp_path / "first" / "blobs") in words
    assert "s3://" in words


async def test_a_second_machine_may_have_an_ingest_directory_of_its_own(
    database_url: str, tmp_path: Path
) -> None:
    await upload(database_url, tmp_path / "first")
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "blobs").symlink_to(tmp_path / "first" / "blobs")
    await upload(database_url, tmp_path / "second")


async def test_a_volume_that_is_not_mounted(database_url: str, tmp_path: Path) -> None:
    await upload(database_url, tmp_path, worker=True)
    blobs, away = tmp_path / "blobs", tmp_path / "away"
    blobs.rename(away)
    blobs.mkdir()
    words = await refused(database_url, tmp_path)
    assert "mount it" in words
    assert contents(blobs) == {}
    # The remedy for a directory that was restored without its hidden file.
    line = words.rpartition(" echo ")[2]
    blobs.rmdir()
    away.rename(blobs)
    (blobs / ".safelight").unlink()
    deed, _, target = line.partition(" > ")
    Path(target).write_text(deed + "\n")
    await upload(database_url, tmp_path, 0)


async def test_an_upgrade_with_a_volume_that_is_not_mounted(
    database_url: str, tmp_path: Path
) -> None:
    await upload(database_url, tmp_path, worker=True)
    (tmp_path / "blobs").rename(tmp_path / "away")
    db = await Database.open(database_url, pool_size=1)
    await db.execute("UPDATE identity SET blobs = NULL")
    db.terminate()
    assert "Is its volume mounted?" in await refused(database_url, tmp_path)


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / ".safelight").write_text("db_a place_a\n")
    ids = RandomIds()
    made = Yard(database, tmp_path)
    made.store = LocalStore(database, Blobs(tmp_path / "blobs", ids), made.clock, ids)
    yield made
    await made.close()


async def test_a_volume_that_goes_away_and_comes_back(yard: Yard) -> None:
    """Nothing is written below its mount point, and nothing is taken for damaged."""
    assert yard.store
    first, second = await yard.receive("a.jpg", b"first"), await yard.receive("b.jpg", b"second")
    await yard.bring(first)
    blobs, away = yard.root / "blobs", yard.root / "away"
    blobs.rename(away)
    blobs.mkdir()
    verdict = await yard.bring(second)
    assert isinstance(verdict, Retry)
    assert isinstance(verdict.error, StoreUnavailable)
    assert list(blobs.iterdir()) == []
    with pytest.raises(StoreUnavailable):
        await joined((await yard.store.get("acme/a.jpg")).chunks)
    with pytest.raises(StoreUnavailable):
        await yard.store.check()
    blobs.rmdir()
    with pytest.raises(StoreUnavailable):
        await yard.store.check()
    # As a volume that is mounted again: the same files, another inode.
    _copy(away, blobs)
    await yard.bring(second)
    assert await yard.status(second) is ImageStatus.STORED
    assert await joined((await yard.store.get("acme/a.jpg")).chunks) == b"first"
    (blobs / "lost").mkdir()
    next(blobs.glob("??/*")).rename(blobs / "lost" / "x")
    with pytest.raises(DamagedObject):
        for name in ("a.jpg", "b.jpg"):
            await joined((await yard.store.get(f"acme/{name}")).chunks)


def _copy(source: Path, target: Path) -> None:
    import shutil

    shutil.copytree(source, target)
