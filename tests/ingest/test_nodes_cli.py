"""`safelight nodes`, run in this process on a real database."""

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Run, executing
from ingest.machines import Machine
from safelight.infra.db import Database
from safelight.infra.identity import claim, identity_of
from safelight.infra.injected import RandomIds

Act = Callable[[Database, Machine], Coroutine[Any, Any, Any]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database_url: str,
    tmp_path: Path,
) -> Iterator[Run]:
    """Runs the command; gives its exit code, output and complaints."""
    monkeypatch.setenv("SAFELIGHT_DATABASE_URL", database_url)
    monkeypatch.setenv("SAFELIGHT_DATA_DIR", str(tmp_path / "here"))

    with executing(monkeypatch, capsys, "nodes") as execute:
        yield execute


@pytest.fixture
def gone(database_url: str, tmp_path: Path) -> str:
    """The node of a machine that was destroyed with three uploads on its disk."""

    async def make(db: Database) -> str:
        await db.execute("INSERT INTO organizations VALUES ('acme', 0)")
        machine = Machine(db, tmp_path / "b", tmp_path / "blobs")
        identity = await identity_of(db)
        claim(machine.directory, identity, RandomIds(), what="It", database=database_url)
        await machine.start()
        await machine.destroyed(3)
        return machine.id

    node: str = with_database(database_url, make)
    return node


def with_database(url: str, act: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
    async def run_it() -> Any:
        db = await Database.open(url, pool_size=3)
        try:
            return await act(db)
        finally:
            await db.close()

    return asyncio.run(run_it())


def test_listed_and_adopted(run: Run, gone: str, tmp_path: Path) -> None:
    code, out, _ = run("list", "--json")
    [node] = json.loads(out)
    assert (code, node["id"], node["standing"], node["uploads"]) == (0, gone, "missing", 3)
    assert gone in run("list")[1]
    shutil.copytree(tmp_path / "b" / "ingest", tmp_path / "moved")
    assert run("adopt", str(tmp_path / "nowhere"))[0] == 2
    code, out, _ = run("adopt", str(tmp_path / "moved"))
    assert (code, out.splitlines()[0]) == (
        0, f"3 uploads from {tmp_path / 'moved'} taken over.",
    )  # fmt: skip
    assert "can be removed" in out
    assert len(list((tmp_path / "here" / "ingest").glob("img_*"))) == 3
    code, out, _ = run("adopt", str(tmp_path / "moved"), "--json")
    assert (code, json.loads(out)) == (0, {"taken": 3, "left": 0, "node": gone, "damaged": []})


def test_what_is_damaged_or_not_there_is_said(run: Run, gone: str, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "b" / "ingest", tmp_path / "moved")
    first, second, _ = sorted((tmp_path / "moved").glob("img_*"))
    first.unlink()
    second.write_bytes(b"?")
    code, out, _ = run("adopt", str(tmp_path / "moved"))
    assert code == 1
    assert f"left alone: {second}" in out
    assert f"2 uploads of {gone} still wait" in out


def test_given_up(run: Run, gone: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, complaint = run("give-up", gone, "--uploads", "2")
    assert (code, "say 3" in complaint) == (4, True)
    assert run("give-up", "node_nobody")[0] == 4
    monkeypatch.setattr("typer.confirm", lambda question, **_: question)
    code, out, _ = run("give-up", gone)
    assert (code, out) == (0, f"{gone} is given up; 3 uploads failed.\n")
    count = "SELECT count(*) FROM images WHERE status = 'FAILED'"
    assert with_database(database_url, lambda db: db.fetchval(count)) == 3
    assert json.loads(run("list", "--json")[1]) == []
