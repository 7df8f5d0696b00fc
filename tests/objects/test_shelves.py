"""Where blobs lie: in one level of directories, but for stores that began with two."""

from pathlib import Path

import pytest

from objects.stores import Local, digest, stream
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.infra.identity import DEED
from safelight.infra.injected import RandomIds
from safelight.objects.claim import claim_blobs
from safelight.objects.shelves import Shelves, blobs_in
from safelight.objects.store import Facts

JPEG = Facts("image/jpeg")
NAME = digest(b"one")
WIDE, DEEP = Path(NAME[:2], NAME), Path(NAME[:2], NAME[2:4], NAME)


def lies(root: Path) -> Path:
    return Path(Shelves(root, RandomIds()).path(NAME)).relative_to(root)


def leave(root: Path, where: Path, content: bytes = b"one") -> None:
    (root / where).parent.mkdir(parents=True, exist_ok=True)
    (root / where).write_bytes(content)


def test_an_empty_directory_begins_wide_and_stays(tmp_path: Path) -> None:
    assert lies(tmp_path / "blobs") == WIDE
    assert lies(tmp_path / "blobs") == WIDE


@pytest.mark.parametrize("where", [WIDE, DEEP])
def test_what_lies_there_tells_where_its_mark_is_lost(tmp_path: Path, where: Path) -> None:
    """As after a restore that left hidden files out, with or without a deed written by hand."""
    leave(tmp_path, where)
    (tmp_path / "00").mkdir(exist_ok=True)
    (tmp_path / "01").write_text("in the way")
    assert lies(tmp_path) == where
    (tmp_path / DEED).write_text("database place")
    assert lies(tmp_path) == where
    assert list(blobs_in(tmp_path)) == [NAME]


def test_a_directory_that_an_older_server_took_and_left_empty(tmp_path: Path) -> None:
    """It may be at work still."""
    (tmp_path / DEED).write_text("database place")
    assert lies(tmp_path) == DEEP


@pytest.mark.parametrize(
    "point", ["files.once_write", "files.once_fsync", "files.once_link", "files.once_drop"]
)
def test_an_end_before_the_mark_is_there(tmp_path: Path, point: str) -> None:
    failpoints.arm(point, "enospc@1")
    with pytest.raises(OSError, match="space"):
        lies(tmp_path)
    failpoints.disarm()
    assert lies(tmp_path) == WIDE


async def test_a_claimed_directory_is_wide(database: Database, tmp_path: Path) -> None:
    """The mark is there before the deed: whoever sees one sees both."""
    await claim_blobs(database, tmp_path / "blobs", RandomIds())
    assert lies(tmp_path / "blobs") == WIDE


async def test_a_store_with_two_levels_keeps_them(database: Database, tmp_path: Path) -> None:
    leave(tmp_path, DEEP)
    local = Local(database, tmp_path)
    await local.store.put("acme/a", stream(b"one"), JPEG)
    await local.store.put("acme/b", stream(b"two"), JPEG)
    two = digest(b"two")
    assert (tmp_path / two[:2] / two[2:4] / two).read_bytes() == b"two"
    assert await joined((await local.store.get("acme/a")).chunks) == b"one"
    assert [file.sha256 for file in local.blobs.files(two[:2])] == [two]
    assert not list(tmp_path.glob(f"??/{'?' * 64}"))


async def test_the_first_put_makes_all_and_the_others_none(
    database: Database, tmp_path: Path
) -> None:
    local = Local(database, tmp_path)
    await local.store.put("acme/a", stream(b"one"), JPEG)
    made = sorted(path.name for path in tmp_path.glob("??"))
    assert made == [f"{number:02x}" for number in range(256)]


async def test_a_directory_that_somebody_removed_is_made_again(
    database: Database, tmp_path: Path
) -> None:
    local = Local(database, tmp_path)
    await local.store.put("acme/a", stream(b"one"), JPEG)
    shard = tmp_path / digest(b"two")[:2]
    shard.rmdir()
    await local.store.put("acme/b", stream(b"two"), JPEG)
    assert await joined((await local.store.get("acme/b")).chunks) == b"two"
