"""Files that are there after a power cut, or not at all."""

import errno
import gc
import threading
import time
from pathlib import Path

import pytest

from points import points_of
from safelight.infra import failpoints, files
from safelight.infra.failpoints import FailpointError

CONTENT = b"x" * 3_000_000
WRITING = points_of(
    "files.",
    without=[
        "files.discard_draft", "files.fsync_source",
        # test_identity.py: of small files that are written once, and directories.
        "files.once_write", "files.once_fsync", "files.once_link", "files.once_drop",
        "files.once_sync", "files.sync_made",
    ],
)  # fmt: skip


def source(directory: Path) -> Path:
    path = directory / "source"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize("point", WRITING)
@pytest.mark.parametrize("action", ["enospc@1", "raise@1"])
def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, point: str, action: str) -> None:
    here, target = source(tmp_path), tmp_path / "target"
    what = files.measure(here)
    failpoints.arm(point, action)
    with pytest.raises((OSError, FailpointError)):
        files.copy(here, target, what)
    assert not target.exists()
    files.copy(here, target, what)
    assert target.read_bytes() == CONTENT


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    failpoints.arm("files.write", "enospc@2")
    here = source(tmp_path)
    with pytest.raises(OSError, match="No space left") as full:
        files.copy(here, tmp_path / "target", files.measure(here))
    assert full.value.errno == errno.ENOSPC


def test_a_draft_that_cannot_be_discarded_stays_a_draft(tmp_path: Path) -> None:
    """Whoever tidies the directory removes it by its name; nobody takes it for the file."""
    receiving = files.Receiving(tmp_path / "draft")
    receiving.write(CONTENT)
    failpoints.arm("files.discard_draft", "raise@1")
    with pytest.raises(FailpointError):
        receiving.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["draft"]
    receiving.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_cannot_be_made_durable_is_not_measured(tmp_path: Path) -> None:
    here = source(tmp_path)
    failpoints.arm("files.fsync_source", "raise@1")
    with pytest.raises(FailpointError):
        files.measure_durable(here)
    assert files.measure_durable(here) == files.measure(here)


def test_other_bytes_than_those_measured_do_not_arrive(tmp_path: Path) -> None:
    here = source(tmp_path)
    what = files.measure(here)
    here.write_bytes(CONTENT[:-1] + b"y")
    with pytest.raises(files.ChecksumMismatch):
        files.copy(here, tmp_path / "target", what)
    assert not (tmp_path / "target").exists()


def test_a_sync_serves_all_who_asked_before_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, go = threading.Event(), threading.Event()
    syncs: list[list[str]] = []

    def slow(path: str) -> None:
        under_way.set()
        go.wait(20)
        syncs.append(sorted(entry.name for entry in Path(path).iterdir()))

    monkeypatch.setattr(files, "sync_directory", slow)
    shared = files.SharedSync(tmp_path)
    first = threading.Thread(target=shared.sync_together)
    first.start()
    under_way.wait(20)

    def write(name: str) -> None:
        (tmp_path / name).touch()
        shared.sync_together()

    later = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in later:
        thread.start()
    while shared._asked < 4:
        time.sleep(0.001)
    go.set()
    for thread in (first, *later):
        thread.join(20)
    assert len(syncs) == 2
    assert syncs[-1] == ["a", "b", "c"]


def test_a_file_that_could_not_be_made_leaves_nothing_to_close(tmp_path: Path) -> None:
    """Exceptions in destructors fail a test."""
    with pytest.raises(FileNotFoundError):
        files.Receiving(tmp_path / "away" / "draft")
    gc.collect()


def test_a_sync_that_fails_serves_nobody(tmp_path: Path) -> None:
    shared = files.SharedSync(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        shared.sync_together()
    (tmp_path / "away").mkdir()
    shared.sync_together()
