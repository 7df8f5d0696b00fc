import asyncio
import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil
import pytest
import structlog

from infra.postgres.clusters import (
    Beginner,
    Starter,
    cluster_of,
    execute,
    gone,
    kept,
    value,
)
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.postgres import cluster
from safelight.infra.postgres.account import Account, account_for, launch
from safelight.infra.postgres.cluster import answering_postmaster, orphans, until_alone
from safelight.infra.postgres.process import Postmaster
from safelight.infra.postgres.server import (
    EmbeddedPostgres,
    NoServer,
    PostgresStillRunning,
    join,
    next_wait,
)
from safelight.testing.waiting import eventually, until


async def test_it_ends_with_a_killed_parent(
    data_dir: Path, life: Beginner, starter: Starter
) -> None:
    running = life(data_dir)
    heard = running.hear()
    await execute(heard["url"], "INSERT INTO kept VALUES (2)")
    running.kill()
    eventually(lambda: gone(heard["pid"]))
    assert not (cluster_of(data_dir) / "postmaster.pid").exists()
    with pytest.raises(NoServer, match="No Safelight server"):
        join(data_dir)  # the url file is still there, and is not believed
    assert await value(starter(data_dir).url, "SELECT max(n) FROM kept WHERE n < 10") == 2


async def test_an_orphan_is_waited_for(data_dir: Path, life: Beginner, starter: Starter) -> None:
    running = life(data_dir)
    heard = running.hear()
    os.kill(heard["pid"], signal.SIGSTOP)
    running.kill()
    assert heard["pid"] in orphans(cluster_of(data_dir))
    with pytest.raises(PostgresStillRunning, match=rf"\b{heard['pid']}\b"):
        list(until_alone(cluster_of(data_dir), patience=0.1))
    assert (cluster_of(data_dir) / "postmaster.pid").exists()
    resume = threading.Timer(0.3, os.kill, (heard["pid"], signal.SIGCONT))
    resume.start()
    assert await kept(starter(data_dir).url) == 1
    resume.join()


async def test_one_that_died_with_its_parent_while_it_recovered(
    data_dir: Path, life: Beginner, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL 18 never ends when it is told to while its startup process begins."""
    monkeypatch.setattr(cluster, "_FAST_SECONDS", 1.0)
    running = life(data_dir)
    heard = running.hear()
    connection = await asyncpg.connect(heard["url"])
    os.kill(connection.get_server_pid(), signal.SIGKILL)
    connection.terminate()
    postmaster = psutil.Process(heard["pid"])
    eventually(lambda: any("startup" in _titled(child) for child in postmaster.children()))
    running.kill()  # which tells it
    assert await kept(starter(data_dir).url) == 1


def _titled(process: psutil.Process) -> str:
    """What it says it is; nothing if it has ended since it was seen."""
    try:
        return process.cmdline()[0]
    except (psutil.NoSuchProcess, IndexError):
        return ""


async def test_watch_restarts_a_killed_postmaster_and_no_committed_row_is_lost(
    data_dir: Path, starter: Starter
) -> None:
    server = starter(data_dir)
    watching = asyncio.create_task(server.watch())
    committed: list[int] = []
    inserting = asyncio.create_task(_insert_for_ever(server.url, committed))
    for _ in range(2):
        await _more(committed, 100)
        await _killed_and_back(server)
    await _more(committed, 1)
    inserting.cancel()
    there = set(await value(server.url, "SELECT array_agg(n) FROM kept"))
    assert there >= set(committed)
    server.stop()
    await asyncio.wait_for(watching, 5)


async def _more(committed: list[int], count: int) -> None:
    enough = len(committed) + count
    await until(lambda: len(committed) >= enough)


async def _killed_and_back(server: EmbeddedPostgres) -> None:
    before = _kill(server)
    await until(lambda: server.pid not in {None, before})


def _kill(server: EmbeddedPostgres) -> int:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


async def _insert_for_ever(url: str, committed: list[int]) -> None:
    number = 1000
    while True:
        with suppress(
            asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError
        ):
            connection = await asyncpg.connect(url)
            try:
                while True:
                    number += 1
                    await connection.execute("INSERT INTO kept VALUES ($1)", number)
                    committed.append(number)
            finally:
                connection.terminate()
        await asyncio.sleep(0.01)


async def test_watch_keeps_trying(data_dir: Path, starter: Starter) -> None:
    server = starter(data_dir)
    watching = asyncio.create_task(server.watch())
    _kill(server)
    run = data_dir / "run"
    shutil.rmtree(run)
    run.write_text("in the way")
    with structlog.testing.capture_logs() as logs:
        await until(lambda: "postgres.restart_failed" in {line["event"] for line in logs})
        run.unlink()
        await until(lambda: "postgres.restarted" in {line["event"] for line in logs})
    assert await kept(server.url) == 1
    server.stop()
    await asyncio.wait_for(watching, 5)


def test_waits_between_restarts_grow_to_a_limit_and_begin_again() -> None:
    waits = [0.0]
    for _ in range(8):
        waits.append(next_wait(waits[-1], lived=1))
    assert waits == pytest.approx([0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])
    assert next_wait(10, lived=3600) == 0


async def test_nothing_ends_the_watch(
    data_dir: Path, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a disk that is full nor anything else that nobody thought of."""
    full = OSError(errno.ENOSPC, "No space left on device")
    troubles = [full, ValueError("something else")]
    rise = Postmaster.rise

    def troubled(postmaster: Postmaster) -> Iterator[None]:
        if troubles:
            raise troubles.pop()
        yield from rise(postmaster)

    def no_room(_: Postmaster) -> None:
        raise full

    server = starter(data_dir)
    with monkeypatch.context() as patch:
        patch.setattr(Postmaster, "cap_log", no_room)
        watching = asyncio.create_task(server.watch())
        await asyncio.sleep(0)  # it looks at the log once
        assert not watching.done()
    monkeypatch.setattr(Postmaster, "rise", troubled)
    with structlog.testing.capture_logs() as logs:
        _kill(server)
        await until(lambda: "postgres.restarted" in {line["event"] for line in logs})
    assert troubles == []
    assert await kept(server.url) == 1
    assert not watching.done()
    server.stop()
    await asyncio.wait_for(watching, 5)


async def test_a_stale_lock_of_the_socket_does_not_matter(data_dir: Path, starter: Starter) -> None:
    """It survives a power cut with the pid file, and its number is soon somebody else's."""
    cluster = cluster_of(data_dir)
    sleeper = _sleeper("unrelated", account_for(cluster))
    text = f"{sleeper.pid}\n{cluster}\n1700000000\n5432\n{data_dir}/run\n"
    starter(data_dir).stop()  # makes the directory
    lock = data_dir / "run" / ".s.PGSQL.5432.lock"
    for path in (cluster / "postmaster.pid", lock):
        path.write_text(text)
        path.chmod(0o600)
        os.chown(path, cluster.stat().st_uid, cluster.stat().st_gid)
    try:
        assert await kept(starter(data_dir).url) == 1
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("named", ["unrelated", "zombie", "dead", "ourselves", "nothing"])
async def test_a_stale_pid_file_does_not_matter(
    named: str, data_dir: Path, starter: Starter
) -> None:
    cluster = cluster_of(data_dir)
    sleeper = _sleeper(named, account_for(cluster))
    pid = os.getpid() if named == "ourselves" else sleeper.pid
    text = f"{pid}\n{cluster}\n1700000000\n5432\n{data_dir}/run\n\n  1234567  0\nready   \n"
    (cluster / "postmaster.pid").write_text("" if named == "nothing" else text)
    try:
        assert await kept(starter(data_dir).url) == 1
        assert (sleeper.poll() is None) is (named not in {"zombie", "dead"})
    finally:
        sleeper.kill()
        sleeper.wait()


def _sleeper(named: str, account: Account | None) -> subprocess.Popen[bytes]:
    """Runs as PostgreSQL's user: a process of anybody else could not be taken for it."""
    sleeper = launch(["/bin/sleep", "60"], account, signal.SIGKILL, subprocess.DEVNULL)
    if named in {"zombie", "dead"}:
        sleeper.kill()
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    if named == "dead":
        sleeper.wait()
    return sleeper


def test_without_proc_only_a_postmaster_that_answers_counts(
    data_dir: Path, starter: Starter
) -> None:
    cluster = cluster_of(data_dir)
    server = starter(data_dir)
    assert answering_postmaster(cluster) == server.pid
    recorded = (cluster / "postmaster.pid").read_text()
    (cluster / "postmaster.pid").write_text(recorded.replace(str(server.pid), str(os.getpid()), 1))
    assert answering_postmaster(cluster) is None
    (cluster / "postmaster.pid").write_text(recorded)
    server.stop()
    (cluster / "postmaster.pid").write_text(recorded)
    assert answering_postmaster(cluster) is None


async def test_an_initdb_killed_half_way_is_never_taken_for_a_cluster(
    place: Path, life: Beginner, starter: Starter
) -> None:
    data_dir = place / "data"
    running = life(data_dir)
    eventually(lambda: any(data_dir.glob("postgres/cluster.new-*/PG_VERSION")))
    running.kill()
    assert not cluster_of(data_dir).exists()
    assert await value(starter(data_dir).url, "SELECT 1") == 1
    assert not list(data_dir.glob("postgres/cluster.new-*"))


async def test_a_death_at_any_step_of_the_first_start_is_overcome(
    place: Path, life: Beginner, starter: Starter
) -> None:
    data_dir = place / "data"
    steps = ("initdb", "publish_cluster", "set_password", "keep_password", "launch", "publish_url")
    for step in steps:
        running = life(data_dir, failpoints={f"postgres.{step}": "exit"})
        assert running.end() == EXIT_CODE, step
        assert cluster_of(data_dir).exists() is (steps.index(step) > 1)
    assert await value(starter(data_dir).url, "SELECT 1") == 1
