"""The power goes: what was acknowledged is there afterwards, and the server starts again."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from conftest import reachable_directory
from faults.power import PoweredVolume, powered
from harness import Server, await_ready, eventually, launch, picture, running
from safelight.infra.postgres import binaries as programs

pytestmark = pytest.mark.process


@pytest.fixture
def volume() -> Iterator[PoweredVolume]:
    with reachable_directory() as place, powered(place) as made:
        yield made


def cut(volume: PoweredVolume, server: Server) -> None:
    """Every process dies with the machine, PostgreSQL's too."""
    family = [
        server.process.pid,
        *(p.pid for p in psutil.Process(server.process.pid).children(True)),
    ]
    volume.cut()
    for pid in family:
        with suppress(ProcessLookupError):  # some have ended of the errors they got
            os.kill(pid, signal.SIGKILL)
    server.process.wait(20)
    eventually(lambda: not any(map(psutil.pid_exists, family[1:])))
    volume.restore()


def test_an_upload_acknowledged_right_after_the_first_start(volume: PoweredVolume) -> None:
    data_dir = volume.where / "data"
    server = await_ready(launch(data_dir, "--no-worker"))
    image = server.upload(picture()).json()["imageId"]
    cut(volume, server)
    with running(data_dir) as server, server.client() as client:
        eventually(lambda: client.get(f"/api/images/{image}").json()["status"] == "STORED")
        assert client.get("/api/organizations/default/uploads/a.jpg/content").content == picture()


def test_the_copied_programs(volume: PoweredVolume) -> None:
    """They are copied where PostgreSQL's user cannot reach the installed ones."""
    found = programs.find_binaries()
    beside = volume.where / "postgres"
    beside.mkdir()
    copied = programs._copied(found, beside)
    _commit(volume.where / "something else")
    volume.cut()
    volume.restore()
    again = programs._copied(found, beside)
    assert _sizes(again) == _sizes(found)
    assert again.folder == copied.folder


def _commit(path: Path) -> None:
    """Whoever syncs anything commits the names of everything."""
    with path.open("w") as file:
        file.write("x")
        file.flush()
        os.fsync(file.fileno())


def _sizes(binaries: programs.Binaries) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (binaries.postgres, binaries.initdb)}
