"""The process dies at every step of an upload; the next start leaves no trace of half a thing."""

import asyncio
import os
import time
from pathlib import Path

import asyncpg
import httpx
import pytest

from harness import await_ready, eventually, launch, picture, running
from nursery import bear
from points import points_of
from safelight.infra.failpoints import EXIT_CODE

# Killed by other tests: an upload that succeeds does not come by them.
ELSEWHERE = [
    "ingest.recorded", "ingest.discard",  # below
    "ingest.renew_node", "ingest.remember_home", "ingest.sweep",  # these in test_sweep.py
    "ingest.put", "ingest.store",  # test_offload_kills.py
    "ingest.fail",  # test_offload.py
    "ingest.put_back", "ingest.restore", "ingest.forget_file",  # test_late_bucket.py
    *points_of("ingest.nodes."), *points_of("ingest.adopt_"),  # test_nodes.py, test_adopting.py
    *points_of("ingest.direct."),  # test_direct.py
]  # fmt: skip
# All the others, those included that are added tomorrow.
BEFORE_THE_RECORD = points_of("ingest.", without=ELSEWHERE)
pytestmark = pytest.mark.process


def rows(url: str) -> list[asyncpg.Record]:
    async def fetch() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch("SELECT id, status FROM images ORDER BY created_at")
        finally:
            await connection.close()

    return asyncio.run(fetch())


def crash_at(point: str, directory: Path, url: str) -> None:
    on_conflict = "rename" if point.endswith("_unless_taken") else "replace"
    arguments = (url, str(directory), on_conflict)
    child = bear("ingest.victim:upload", *arguments, points=f"{point}=exit")
    assert child.wait() == EXIT_CODE, point


def test_killed_before_the_record(tmp_path: Path, database_url: str) -> None:
    """Each life but the last ends at one of the steps, and begins without a trace of the one before."""
    for point in BEFORE_THE_RECORD:
        crash_at(point, tmp_path, database_url)
        assert rows(database_url) == [], point
        for path in (tmp_path / "ingest").glob("img_*"):  # its record may come for a minute
            os.utime(path, (time.time() - 61, time.time() - 61))
    with running(tmp_path, "--no-worker", SAFELIGHT_DATABASE_URL=database_url) as server:
        assert server.files() == []
        image = server.upload(picture()).json()["imageId"]
        assert server.files() == [f"{image}.jpg"]


def test_killed_after_the_record(tmp_path: Path, database_url: str) -> None:
    crash_at("ingest.recorded", tmp_path, database_url)
    [row] = rows(database_url)
    assert row["status"] == "INGESTED"
    with running(tmp_path, "--no-worker", SAFELIGHT_DATABASE_URL=database_url) as server:
        assert server.files() == [f"{row['id']}.jpg"]
        with server.client() as client:
            history = client.get(f"/api/images/{row['id']}/history").json()["items"]
        assert [item["to"] for item in history] == ["UPLOADED", "INGESTED"]


def test_killed_while_cleaning_up(tmp_path: Path, database_url: str) -> None:
    environment = {
        "SAFELIGHT_DATABASE_URL": database_url,
        "SAFELIGHT_FAILPOINTS": "ingest.discard=exit",
    }
    server = await_ready(launch(tmp_path, "--no-worker", environment=environment))
    with pytest.raises(httpx.HTTPError):  # whole, on disk, and not what was announced
        server.upload(picture(), headers={"x-content-sha256": "0" * 64})
    assert server.process.wait(20) == EXIT_CODE
    assert [name for name in server.files() if name.endswith(".part")]
    with running(tmp_path, "--no-worker", SAFELIGHT_DATABASE_URL=database_url) as again:
        assert again.files() == []


def test_the_database_dies_and_comes_back(data_dir: Path) -> None:
    """With the embedded server: refused while it is away, accepted as soon as it is back."""
    with running(data_dir) as server:
        assert server.upload(picture()).status_code == 201
        kill_postmaster(data_dir)
        answers: list[httpx.Response] = []
        while not answers or answers[-1].status_code != 201:
            answers.append(server.upload(picture()))
            assert len(answers) < 400
        for answer in answers[:-1]:
            assert (answer.status_code, answer.json()["code"]) == (500, "DATABASE_ERROR")
        eventually(lambda: len(server.logged("[Upload]")) == 2)


def kill_postmaster(data_dir: Path) -> None:
    import os
    import signal

    pid = int(next(data_dir.rglob("postmaster.pid")).read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)


def test_a_large_body_leaves_memory_flat(tmp_path: Path, database_url: str) -> None:
    """A quarter of a gigabyte here; the bench streams a whole one."""
    from collections.abc import Iterator

    import psutil

    opening = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    megabyte = bytes(1024 * 1024)

    def body(megabytes: int) -> Iterator[bytes]:
        yield opening + picture("PNG")
        for _ in range(megabytes):
            yield megabyte
        yield b"\r\n--b--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=b"}
    with running(
        tmp_path, "--no-worker",
        SAFELIGHT_DATABASE_URL=database_url, SAFELIGHT_MAX_UPLOAD_BYTES=str(2**31),
    ) as server, server.client() as client:  # fmt: skip
        assert client.post("/api/upload", content=body(16), headers=headers).status_code == 201
        before = psutil.Process(server.process.pid).memory_info().rss
        assert client.post("/api/upload", content=body(256), headers=headers).status_code == 201
        after = psutil.Process(server.process.pid).memory_info().rss
    assert after - before < 32 * 1024 * 1024
