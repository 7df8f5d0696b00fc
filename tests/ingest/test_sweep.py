"""Which files the sweep removes, keeps and reports."""

import os
from pathlib import Path

import pytest

from points import points_of
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import ImageId, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.states import IllegalTransition
from safelight.ingest.directory import IngestDirectory, IngestFile
from safelight.ingest.lifecycle import MACHINE, ImageStatus
from safelight.ingest.sweep import Fate, IngestSweep, fate_of

DAY = 86_400_000


def found(*, partial: bool = False) -> IngestFile:
    return IngestFile(Path("x"), ImageId("img_2026-01-01_x"), partial, modified_ms=0)


@pytest.mark.parametrize(
    ("partial", "status", "age", "alone", "fate"),
    [
        (True, None, 0, False, Fate.KEEP),  # being written
        (True, None, 0, True, Fate.REMOVE),  # an earlier life's
        (True, None, DAY, False, Fate.REMOVE),
        (False, None, 0, False, Fate.KEEP),  # its row may be committing
        (False, None, 0, True, Fate.REMOVE),
        (False, None, DAY, False, Fate.REMOVE),
        (False, ImageStatus.INGESTED, DAY - 1, True, Fate.KEEP),
        (False, ImageStatus.INGESTED, 365 * DAY, True, Fate.REPORT),  # the only copy
        (False, ImageStatus.STORED, DAY - 1, False, Fate.KEEP),  # grace for a retry
        (False, ImageStatus.STORED, DAY, False, Fate.REMOVE),
        (False, ImageStatus.FAILED, DAY, False, Fate.REMOVE),
    ],
)
def test_fates(
    partial: bool, status: ImageStatus | None, age: int, alone: bool, fate: Fate
) -> None:
    file = found(partial=partial)
    assert fate_of(file, status, now_ms=age, ttl_ms=DAY, alone=alone) is fate


async def test_only_our_own_files_are_touched(database: Database, tmp_path: Path) -> None:
    directory = IngestDirectory(tmp_path, RandomIds())
    for name in ("notes.txt", "img_2026-01-01_a.jpg", ".img_2026-01-01_b.part", "img_x.exe"):
        (tmp_path / name).write_text("x")
    (tmp_path / "img_2026-01-01_d.png").mkdir()
    sweep = IngestSweep(database, directory, SystemClock(), Metrics(), 86_400)
    assert await sweep.run() == 0  # all of it is young
    assert await sweep.at_start() == 2
    rest = {path.name for path in tmp_path.iterdir()}
    assert rest == {".lock", ".node", "notes.txt", "img_x.exe", "img_2026-01-01_d.png"}


async def test_leftovers_wait_while_another_process_writes(
    database: Database, tmp_path: Path
) -> None:
    mine, other = (IngestDirectory(tmp_path, RandomIds()) for _ in range(2))
    assert mine.node == other.node
    other.lock_shared()
    part = tmp_path / ".img_2026-01-01_b.part"
    part.write_text("x")
    sweep = IngestSweep(database, mine, SystemClock(), Metrics(), 86_400)
    assert await sweep.at_start() == 0
    os.utime(part, (0, 0))
    assert await sweep.run() == 1


async def test_interrupted_it_goes_on(database: Database, tmp_path: Path) -> None:
    directory = IngestDirectory(tmp_path, RandomIds())
    for letter in "abc":
        (tmp_path / f".img_2026-01-01_{letter}.part").write_text("x")
    sweep = IngestSweep(database, directory, SystemClock(), Metrics(), 86_400)
    failpoints.arm("ingest.sweep", "raise@2")
    with pytest.raises(FailpointError):
        await sweep.at_start()
    assert len(list(directory.files())) == 2
    assert await sweep.at_start() == 2


@pytest.mark.parametrize("point", points_of("ingest.node_"))
def test_a_directory_has_one_node_however_its_first_start_ended(tmp_path: Path, point: str) -> None:
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        IngestDirectory(tmp_path, RandomIds())
    nodes = {IngestDirectory(tmp_path, RandomIds()).node for _ in range(2)}
    assert len(nodes) == 1
    assert nodes != {""}


def test_transitions() -> None:
    MACHINE.check(ImageStatus.UPLOADED, ImageStatus.INGESTED)
    MACHINE.check(ImageStatus.FAILED, ImageStatus.UPLOADED)
    with pytest.raises(IllegalTransition, match="STORED → UPLOADED"):
        MACHINE.check(ImageStatus.STORED, ImageStatus.UPLOADED)
    with pytest.raises(IllegalTransition, match="Allowed: STORED, FAILED"):
        MACHINE.check(ImageStatus.INGESTED, ImageStatus.UPLOADED)
