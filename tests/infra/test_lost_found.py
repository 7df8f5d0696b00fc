"""What nobody knows is moved, kept for weeks, and given back when it is asked for."""

import time
from pathlib import Path

import pytest

from points import points_of
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.infra.lost_found import LostFound


def stray(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text(name)
    return path


def test_there_and_back(tmp_path: Path) -> None:
    lost = LostFound(tmp_path)
    assert list(lost.files()) == []
    assert lost.take([stray(tmp_path, "a"), tmp_path / "gone"]) == 1
    assert [file.path.name for file in lost.files()] == ["a"]
    assert not lost.give_back("b", tmp_path / "b")
    assert lost.give_back("a", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "a"


def test_its_time_begins_when_it_is_moved(tmp_path: Path) -> None:
    import os

    old = stray(tmp_path, "a")
    os.utime(old, (0, 0))
    before = int(time.time() * 1000) - 1000
    lost = LostFound(tmp_path)
    lost.take([old])
    assert lost.forget(before) == 0
    assert lost.forget(before + 60_000) == 1


@pytest.mark.parametrize("point", points_of("lost_found."))
def test_a_file_is_at_one_place_or_the_other(tmp_path: Path, point: str) -> None:
    lost = LostFound(tmp_path)
    files = [stray(tmp_path, name) for name in "abc"]
    armed = failpoints.arm(point, "raise@2")
    with pytest.raises(FailpointError):
        lost.take(files)
        lost.forget(2**62)
    assert armed.passes == 2
    there = sorted(p.name for p in tmp_path.iterdir() if p.is_file())
    found = sorted(file.path.name for file in lost.files())
    assert (there, len(found)) == ((["b", "c"], 1) if point == "lost_found.move" else ([], 2))
    failpoints.disarm()
    lost.take(files)
    lost.forget(2**62)
    assert list(lost.files()) == []


def test_a_volumes_own_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost+found").mkdir()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    assert LostFound(tmp_path).path == tmp_path / ".lost+found"
