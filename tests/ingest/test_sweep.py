"""Which files the sweep removes, sets aside, keeps and reports."""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest.offloading import Yard
from safelight.headers.probe import ImageFormat
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import ImageId
from safelight.infra.lost_found import HANDFUL, KEPT_MS
from safelight.infra.metrics import Metrics
from safelight.infra.states import IllegalTransition
from safelight.ingest.directory import IngestDirectory, IngestFile, holds_ownerless
from safelight.ingest.lifecycle import MACHINE, ImageStatus
from safelight.ingest.sweep import LATE_MS, Fate, IngestSweep, fate_of

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
        (False, None, LATE_MS - 1, True, Fate.KEEP),  # a dead process's last statement, too
        (False, None, LATE_MS, True, Fate.SET_ASIDE),
        (False, None, DAY, False, Fate.SET_ASIDE),
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


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    made = Yard(database, tmp_path)
    yield made
    await made.close()


def sweep_of(yard: Yard, metrics: Metrics | None = None) -> IngestSweep:
    return IngestSweep(yard.queue, yard.directory, yard.clock, metrics or Metrics(), 86_400)


def leave(yard: Yard, *names: str, age: float = 0) -> None:
    for name in names:
        path = yard.directory.path / name
        path.write_text("x")
        os.utime(path, (time.time() - age, time.time() - age))


def there(yard: Yard) -> set[str]:
    return {file.path.name for file in yard.directory.files()}


def set_aside(yard: Yard) -> set[str]:
    return {file.path.name for file in yard.directory.lost.files()}


async def test_only_our_own_files_are_touched(yard: Yard) -> None:
    leave(yard, "notes.txt", "img_2026-01-01_a.jpg", ".img_2026-01-01_b.part", "img_x.exe", age=61)
    (yard.directory.path / "img_2026-01-01_d.png").mkdir()
    sweep = sweep_of(yard)
    assert await sweep.run() == 0  # all of it is young
    assert await sweep.at_start() == 2
    rest = {path.name for path in yard.directory.path.iterdir()} - {".lock", ".node", ".home"}
    assert rest == {"notes.txt", "img_x.exe", "img_2026-01-01_d.png", "lost+found"}
    assert set_aside(yard) == {"img_2026-01-01_a.jpg"}


@pytest.mark.parametrize("kind", ImageFormat)
async def test_a_file_of_every_kind_is_ours(yard: Yard, kind: ImageFormat) -> None:
    stray = f"img_2026-01-01_a.{kind.extension}"
    leave(yard, stray, age=61)
    assert holds_ownerless(yard.directory.path)
    assert await sweep_of(yard).at_start() == 1
    assert (there(yard), set_aside(yard)) == (set(), {stray})


async def test_a_quick_restart_leaves_what_may_yet_be_recorded(yard: Yard) -> None:
    """The process was killed a moment ago; its last statement may be on its way."""
    leave(yard, "img_2026-01-01_a.jpg")
    assert await sweep_of(yard).at_start() == 0
    assert there(yard) == {"img_2026-01-01_a.jpg"}


async def test_a_file_goes_back_when_its_record_turns_up(yard: Yard) -> None:
    image = await yard.receive()
    name = Path(image.temp_path).name
    yard.directory.lost.take([Path(image.temp_path)])
    assert await sweep_of(yard).run() == 0
    assert there(yard) == {name}
    assert set_aside(yard) == set()


async def test_an_offload_asks_lost_found_before_it_gives_up(yard: Yard) -> None:
    image = await yard.receive()
    yard.directory.lost.take([Path(image.temp_path)])
    await yard.bring(image)
    assert await yard.status(image) is ImageStatus.INGESTED
    await yard.bring(image)
    assert await yard.status(image) is ImageStatus.STORED


async def test_weeks_later_it_goes(yard: Yard) -> None:
    leave(yard, "img_2026-01-01_a.jpg", age=61)
    now = yard.clock.now_ms()
    await sweep_of(yard).at_start()
    yard.clock.ms = now + KEPT_MS - 60_000
    await sweep_of(yard).run()
    assert len(set_aside(yard)) == 1
    yard.clock.ms = now + KEPT_MS + 60_000
    await sweep_of(yard).run()
    assert set_aside(yard) == set()


async def test_more_than_a_handful_is_reported_and_left(yard: Yard) -> None:
    names = {f"img_2026-01-01_{n:04}.jpg" for n in range(HANDFUL + 1)}
    leave(yard, *names, ".img_2026-01-01_b.part", age=61)
    metrics = Metrics()
    assert await sweep_of(yard, metrics).at_start() == 1, "the rest of its work goes on"
    assert there(yard) == names
    assert b'safelight_strays{directory="ingest"} 51.0' in metrics.render()


async def test_leftovers_wait_while_another_process_writes(yard: Yard) -> None:
    other = IngestDirectory(yard.directory.path, yard.ids)
    assert yard.directory.node == other.node
    other.lock_shared()
    leave(yard, ".img_2026-01-01_b.part")
    sweep = sweep_of(yard)
    assert await sweep.at_start() == 0
    leave(yard, ".img_2026-01-01_b.part", age=86_400)
    assert await sweep.run() == 1
    other.close()


async def test_interrupted_it_goes_on(yard: Yard) -> None:
    leave(yard, *(f".img_2026-01-01_{letter}.part" for letter in "abc"))
    sweep = sweep_of(yard)
    failpoints.arm("ingest.sweep", "raise@2")
    with pytest.raises(FailpointError):
        await sweep.at_start()
    assert len(there(yard)) == 2
    assert await sweep.at_start() == 2


async def test_a_volume_that_went_away_is_not_swept(yard: Yard) -> None:
    leave(yard, "img_2026-01-01_a.jpg", age=61)
    away = yard.directory.path.with_name("away")
    yard.directory.path.rename(away)
    yard.directory.path.mkdir()
    leave(yard, "img_2026-01-01_b.jpg", age=61)
    assert await sweep_of(yard).at_start() == 0
    assert there(yard) == {"img_2026-01-01_b.jpg"}


def test_transitions() -> None:
    MACHINE.check(ImageStatus.UPLOADED, ImageStatus.INGESTED)
    MACHINE.check(ImageStatus.FAILED, ImageStatus.UPLOADED)
    with pytest.raises(IllegalTransition, match="STORED → UPLOADED"):
        MACHINE.check(ImageStatus.STORED, ImageStatus.UPLOADED)
    with pytest.raises(IllegalTransition, match="Allowed: STORED, FAILED"):
        MACHINE.check(ImageStatus.INGESTED, ImageStatus.UPLOADED)
