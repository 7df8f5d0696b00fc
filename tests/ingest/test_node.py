"""Whose jobs a directory's are: its id survives, is never empty, and never a copy's."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest.offloading import Yard
from points import points_of
from safelight.errors import ConfigurationError
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import RandomIds
from safelight.infra.metrics import Metrics
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.lifecycle import ImageStatus
from safelight.ingest.sweep import IngestSweep

IDS = RandomIds()


def opened(path: Path) -> IngestDirectory:
    return IngestDirectory(path, IDS)


def node_of(path: Path) -> str:
    directory = opened(path)
    directory.close()
    return directory.node


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations VALUES ('acme', 0)")
    made = Yard(database, tmp_path)
    yield made
    await made.close()


async def swept(yard: Yard, metrics: Metrics | None = None) -> None:
    sweep = IngestSweep(yard.queue, yard.directory, yard.clock, metrics or Metrics(), 86_400)
    await sweep.at_start()


@pytest.mark.parametrize(
    "point", [*points_of("files.once_"), "ingest.renew_node", "ingest.remember_home"]
)
def test_one_id_however_a_start_ended(tmp_path: Path, point: str) -> None:
    if point == "ingest.renew_node":
        (tmp_path / ".node").touch()
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        opened(tmp_path)
    assert armed.passes
    nodes = {node_of(tmp_path) for _ in range(3)}
    assert len(nodes) == 1
    assert nodes != {""}


@pytest.mark.parametrize("left", ["", " \n", "\0\0\0\0", "node x"])
def test_an_odd_id_is_made_anew_by_whoever_is_alone(tmp_path: Path, left: str) -> None:
    """As a power cut leaves a file that was never synced."""
    (tmp_path / ".node").write_text(left)
    node = node_of(tmp_path)
    assert node.startswith("node_")
    assert node_of(tmp_path) == node


def test_an_odd_id_beside_others_is_refused_in_words(tmp_path: Path) -> None:
    other = opened(tmp_path)
    other.lock_shared()
    (tmp_path / ".node").write_text("")
    with pytest.raises(ConfigurationError, match="does not hold the id"):
        opened(tmp_path)
    other.close()
    assert node_of(tmp_path) not in {"", other.node}


def test_a_copy_is_another_node(tmp_path: Path) -> None:
    first = node_of(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    assert node_of(tmp_path / "copy") != first
    assert node_of(tmp_path / "copy") == node_of(tmp_path / "copy")
    assert node_of(tmp_path / "first") == first
    (tmp_path / "first").rename(tmp_path / "moved")
    assert node_of(tmp_path / "moved") == first


def test_a_directory_from_before_keeps_its_id(tmp_path: Path) -> None:
    (tmp_path / ".node").write_text("node_before")
    assert {node_of(tmp_path) for _ in range(2)} == {"node_before"}


async def node_of_job(yard: Yard) -> str:
    node: str = await yard.db.fetchval("SELECT node FROM jobs WHERE kind = 'ingest.offload'")
    return node


@pytest.mark.parametrize("node", ["", "node_before"])
async def test_jobs_are_adopted_by_whoever_has_the_file(yard: Yard, node: str) -> None:
    image = await yard.receive()
    await yard.db.execute("UPDATE jobs SET node = $1", node)
    await swept(yard)
    assert await node_of_job(yard) == yard.directory.node
    await yard.bring(image)
    assert await yard.status(image) is ImageStatus.STORED


async def test_jobs_of_files_elsewhere_stay_where_they_are(yard: Yard) -> None:
    image = await yard.receive()
    await yard.db.execute("UPDATE jobs SET node = 'node_other'")
    Path(image.temp_path).unlink()
    await swept(yard)
    assert await node_of_job(yard) == "node_other"


async def test_an_adoption_cut_off_is_made_next_time(yard: Yard) -> None:
    await yard.receive()
    await yard.db.execute("UPDATE jobs SET node = 'node_before'")
    failpoints.arm("queue.adopt", "raise@1")
    with pytest.raises(FailpointError):
        await swept(yard)
    assert await node_of_job(yard) == "node_before"
    await swept(yard)
    assert await node_of_job(yard) == yard.directory.node
