"""Which of two images is the newer: the one recorded later, whatever any clock said."""

from pathlib import Path

from ingest.offloading import Yard
from safelight.infra.db import Database
from safelight.ingest import repo


async def opened(database: Database, root: Path) -> Yard:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    return Yard(database, root)


async def shown(yard: Yard) -> list[str]:
    images = await repo.on_their_way(yard.db, "acme", None, failed_since=0, limit=10)
    return [image.id for image in images]


async def test_the_one_recorded_later(database: Database, tmp_path: Path) -> None:
    """A second machine's clock is behind, or the only one's was set back."""
    yard = await opened(database, tmp_path)
    earlier = await yard.receive("cat.jpg", b"one", at=1_700_000_000_400)
    later = await yard.receive("cat.jpg", b"two", at=1_700_000_000_000)
    other = await yard.receive("dog.jpg", b"three", at=1_600_000_000_000)
    rows = await database.fetch("SELECT id FROM images ORDER BY ordinal")
    assert [row["id"] for row in rows] == [earlier.id, later.id, other.id]
    assert await shown(yard) == [other.id, later.id]
    await yard.close()


async def test_one_from_before_is_older_than_any_that_has_a_number(
    database: Database, tmp_path: Path
) -> None:
    yard = await opened(database, tmp_path)
    before = await yard.receive("cat.jpg", b"one", at=1_700_000_000_400)
    first = await yard.receive("dog.jpg", b"two", at=1_700_000_000_000)
    second = await yard.receive("dog.jpg", b"three", at=1_700_000_000_001)
    await database.execute("UPDATE images SET ordinal = NULL")
    assert await shown(yard) == [before.id, second.id], "among themselves by time, as ever"
    assert first.id not in await shown(yard)
    newer = await yard.receive("cat.jpg", b"four", at=1_600_000_000_000)
    assert await shown(yard) == [newer.id, second.id]
    await yard.close()
