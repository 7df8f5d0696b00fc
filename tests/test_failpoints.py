"""Every step of a write path has a failpoint, and every failpoint is a place where a test has died."""

import ast
from textwrap import indent

import pytest

from gates import failpoints as gate
from gates import killed, sql
from gates.sources import clean, texts_of_tests
from points import all_points, points_of, sources
from safelight.infra import db, failpoints

# Points no test kills, and why a test there would show nothing.
EXCUSED: dict[str, str] = {}


def test_every_repo_function_says_whether_it_writes() -> None:
    clean(gate.undeclared(sources()))


def test_statements_live_in_repos() -> None:
    clean(gate.statements_elsewhere(sources()))


def test_reads_read_and_writes_write() -> None:
    clean(gate.mislabelled(sources(), sql.sql_texts()))


def test_every_other_effect_has_a_point_right_before_it() -> None:
    clean(gate.unguarded(sources()))


def test_every_point_stands_before_an_effect() -> None:
    """One that does not could be taken away, and nobody would notice."""
    clean(gate.aimless(sources()))


def test_names_are_literal_and_unique_and_say_their_feature() -> None:
    clean(gate.ill_named(sources()))


def test_every_point_is_killed_by_some_test() -> None:
    clean(killed.unkilled(sources(), texts_of_tests(), EXCUSED))


@pytest.mark.parametrize(
    "body",
    [
        "os.fsync(1)",
        "sync(1)",
        "o.rename(a, b)",
        "fs(1)",
        "await self.run(os.unlink, path)",
        "size = total(os.write(1, data))",
        "[path.unlink() for path in paths]",
        "if os.replace(a, b): pass",
        "run(lambda: os.fsync(1))",
        "hit('x.y')\nfor path in paths:\n    path.unlink()",
        "hit('x.y')\nif there:\n    path.unlink()",
        "hit('x.y')\ndef inner():\n    os.fsync(1)",
        "hit('x.y')\nother()\nos.fsync(1)",
        "try:\n    pass\nfinally:\n    path.unlink()",
        "return await self._store.put_with(key, source, facts, write)",
        "await taken.provider.submit(order)",
        "async with a:\n    await obstore.delete_async(bucket, key)",
        "shutil.rmtree(path)",
        "path.replace(target)",
        "sync_directory(path)",
    ],
)
def test_the_gate_sees_an_effect_without_a_point(body: str) -> None:
    assert _unguarded(body)


@pytest.mark.parametrize(
    "body",
    [
        "hit('x.y')\nos.fsync(1)",
        "await reach('x.y')\nreturn await self._store.put_with(key, source, facts, write)",
        "hit('x.y')\ntry:\n    os.link(a, b)\nexcept OSError:\n    pass",
        "hit('x.y')\nwith suppress(OSError):\n    path.unlink()",
        "text.replace('a', 'b')",
        "moment.replace(hour=0)",
        "names.remove('a')",
        "os.path.exists(path)",
        "registry.put(1)",
    ],
)
def test_the_gate_lets_the_rest_pass(body: str) -> None:
    assert not _unguarded(body)


def _unguarded(body: str) -> bool:
    imports = "import os, os as o, shutil, obstore\nfrom os import fsync as sync\nfs = os.fsync\n"
    text = imports + "async def f():\n" + indent(body, "    ")
    return any(place.startswith("ingest/x.py:f") for _, place in gate.effects("ingest/x.py", text))


def test_the_gate_sees_a_point_that_stands_before_nothing() -> None:
    texts = {"ingest/x.py": "def f():\n    hit('ingest.look')\n    return len(names)"}
    assert "ingest/x.py:2 ingest.look" in gate.aimless(texts)


def test_the_gate_sees_what_a_repo_hides() -> None:
    head = "from safelight.infra.db import read, write\n_SQL = 'DELETE FROM x'\n"
    helper = "async def _helper(db):\n    await db.execute(_SQL)\n"
    bare = "async def f(db): ...\n"
    hiding = "@read\nasync def g(db):\n    await _helper(db)\n"
    calling = "@read\nasync def h(db):\n    await db.execute('SELECT job_cancel($1)')\n"
    idle = "@write\nasync def i(db):\n    return await db.fetch('SELECT 1 FOR UPDATE')\n"
    texts = {"ingest/repo.py": head + helper + bare + hiding + calling + idle}
    assert gate.undeclared(texts) == ["ingest/repo.py:f"]
    found = gate.mislabelled(texts, sql.sql_texts())
    assert [place.partition(" ")[0][-1] for place in found] == ["g", "h", "i"]


def test_the_gate_counts_what_tests_name_and_take_from_lists() -> None:
    points = {"a.one", "a.two", "a.three", "b.one"}
    armed = {
        "arm('a.one', 'raise')": {"a.one"},
        "environment = 'a.one=exit, b.one=exit'": {"a.one", "b.one"},
        "points_of('a.')": {"a.one", "a.two", "a.three"},
        "points_of('a.', without=['a.two'])": {"a.one", "a.three"},
        "LEFT = ['a.two']\npoints_of('a.', 'b.', without=LEFT)": {"a.one", "a.three", "b.one"},
        "for step in ('one', 'two'):\n    arm(f'a.{step}', 'raise')": {"a.one", "a.two"},
    }
    for text, named in armed.items():
        assert killed.armed_in(ast.parse(text), points) == named, text


def test_a_list_of_points() -> None:
    assert "queue.enqueue" in points_of("queue.")
    assert points_of("queue.", "kv.", without=["queue.run"]).count("queue.run") == 0
    with pytest.raises(AssertionError, match="no such failpoints"):
        points_of("queue.", without=["queue.explode"])
    with pytest.raises(AssertionError, match="no failpoint begins"):
        points_of("nowhere.")


def test_the_list_is_what_the_code_declares() -> None:
    """The names read from the source are those made at run time."""
    __import__("safelight.wiring")
    declared = {point.name for point in all_points(sources()) if point.declared}
    assert declared >= failpoints.DECLARED


def test_actions() -> None:
    failpoints.arm_all("queue.run=raise, kv.put=enospc@2")
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("queue.run")
    failpoints.hit("kv.put")
    with pytest.raises(OSError, match="No space left"):
        failpoints.hit("kv.put")
    failpoints.hit("kv.put")
    failpoints.disarm()
    failpoints.hit("queue.run")
    with pytest.raises(ValueError, match="is not one of"):
        failpoints.arm("queue.run", "explode")


async def test_a_write_has_its_point_and_a_read_has_none() -> None:
    @db.write
    async def change() -> str:
        return "changed"

    @db.read
    async def look() -> str:
        return "seen"

    failpoints.arm(f"{__name__}.change", "raise@1")
    failpoints.arm(f"{__name__}.look", "raise@1")
    assert await look() == "seen"
    with pytest.raises(failpoints.FailpointError):
        await change()
    assert await change() == "changed"
    failpoints.DECLARED.discard(f"{__name__}.change")
