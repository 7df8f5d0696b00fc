"""Every step of a write path has a failpoint, and every failpoint is a place where a test has died."""

import pytest

from gates import failpoints as gate
from gates import sql
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
    clean(gate.unkilled(sources(), texts_of_tests(), EXCUSED))


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
