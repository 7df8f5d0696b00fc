"""Each guard is needed: without it, the same short story ends badly."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from library.conftest import MakeWorld
from library.moves import POINTS, Moves
from safelight.infra.db import Database
from safelight.library import order, project
from safelight.library import repo as library_repo

APPLY = POINTS["classification.run"].index("classification.apply")
DROP = POINTS["classification.run"].index("classification.drop")
WRONG = "not what its bytes say"
LATE = "a failure after the success"
REPLACED = "a failure of what was replaced"
TWICE = "classified more than once"
BACK = "was deleted and came back"
LOST = "lost what the store holds"
DIFFERS = "not what the store holds"
OLDER = "an older upload won"
IDLE = "a run without a job"
SAME_TIME = "a time that did not rise"

Tale = Callable[[Moves], Awaitable[None]]
Weaken = Callable[[Database, pytest.MonkeyPatch], Awaitable[None]]


async def rewrite(db: Database, function: str, before: str, after: str) -> None:
    """Changes a function in this test's own database."""
    source: str = await db.fetchval(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1", function
    )
    assert source.count(before) == 1, source
    await db.execute(source.replace(before, after))


async def dies_four_times(moves: Moves) -> None:
    """Upload, offload and delivery; the result is never written, and the job is buried."""
    await moves.upload("a.jpg", b"one", 0, 0, 0)
    for _ in range(4):
        await moves.work_badly(None, 0, APPLY, "answer", lost=False)
    assert len(await moves.world.dead_letters()) == 1


# The stories


async def an_old_result_after_a_new_upload(moves: Moves) -> None:
    await dies_four_times(moves)
    await moves.upload("a.jpg", b"two", 1, 0, 0, 0)
    await moves.redrive(0, 0)


async def an_old_run_after_a_new_one(moves: Moves) -> None:
    await dies_four_times(moves)
    await moves.deliver_again(0, 0, 0)
    await moves.redrive(0, 0)


async def a_redriven_job_that_never_ends_well(moves: Moves, point: int) -> None:
    """It is for nothing, but each time it is about to say so its worker dies: buried again."""
    await moves.redrive(0)
    for _ in range(4):
        await moves.work_badly(None, 0, point, "answer", lost=False)
    assert len(await moves.world.dead_letters()) == 1


async def an_old_death_after_a_new_upload(moves: Moves) -> None:
    await dies_four_times(moves)
    await moves.upload("a.jpg", b"two", 1, 0, 0, 0)
    await a_redriven_job_that_never_ends_well(moves, DROP)


async def an_old_death_after_a_new_run(moves: Moves) -> None:
    await dies_four_times(moves)
    await moves.deliver_again(0, 0, 0)
    await a_redriven_job_that_never_ends_well(moves, APPLY)


async def a_worker_that_comes_back(moves: Moves) -> None:
    await moves.upload("a.jpg", b"one", 0, 0, 0)
    await moves.think(0, True, 0)
    await moves.wake_up(0, None, "answer", lost=False)


async def a_failure_that_comes_back(moves: Moves) -> None:
    await moves.upload("a.jpg", b"one", 0, 0, 0)
    await moves.think(0, True, 0)
    await moves.wake_up(0, None, "fail", lost=False)


async def deleted_on_its_way(moves: Moves) -> None:
    await moves.upload("a.jpg", b"one")
    await moves.delete("a.jpg", 1)
    await moves.work(0, 0, 0)


async def put_delete_put(moves: Moves, *, says_etag: bool) -> list[dict[str, Any]]:
    """In a bucket, with none of it told yet."""
    await moves.upload("a.jpg", b"one", 0, 0)
    await moves.delete("a.jpg", 1)
    await moves.upload("a.jpg", b"two", 1, 0)
    told = [notice.body for notice in moves.story.notices]
    assert [body["action"] for body in told] == ["PutObject", "DeleteObject", "PutObject"]
    if not says_etag:
        del told[0]["object"]["eTag"]
    return told


async def told_backwards(moves: Moves) -> None:
    """The old upload's event finds the new object; the delete in between comes last."""
    await put_delete_put(moves, says_etag=True)
    await moves.notify(0)
    await moves.notify(1)


async def told_after_the_delete(moves: Moves) -> None:
    await put_delete_put(moves, says_etag=False)
    for which in (1, 0, 1):
        await moves.notify(which)


async def removed_by_others(moves: Moves) -> None:
    """A rule of the bucket removes the object: our index does not know."""
    await moves.upload("a.jpg", b"one", 0, 0)
    await moves.notify(0)
    await moves.expire("a.jpg")


async def a_stray_delete(moves: Moves) -> None:
    await moves.upload("a.jpg", b"one", 0, 0, 0, 0)
    await moves.mislead("a.jpg", None, True, 90_000_000, "r2", 1, 0)


async def deleted_before_it_arrives(moves: Moves) -> None:
    """And that was heard by then."""
    await moves.upload("a.jpg", b"one")
    await moves.delete("a.jpg", 1)
    await moves.deliver(0)
    moves.world.tick(1)
    await moves.work(0, 0)


async def arrives_after_a_newer_one(moves: Moves) -> None:
    await moves.upload("a.jpg", b"one")
    await moves.put("a.jpg", b"two", 1, 1)
    moves.world.tick(1)
    await moves.work(0, 0)


async def arrives_over_a_lost_run(moves: Moves) -> None:
    await moves.put("a.jpg", b"one")
    await moves.lose(0)
    await moves.put("a.jpg", b"two", 1)


async def arrives_within_the_same_moment(moves: Moves) -> None:
    await moves.put("a.jpg", b"one", 0, 0)
    await moves.put("a.jpg", b"two", 0, 0)


# What is taken away


async def marker(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def same_run(db: Database, organization: str, name: str, _: str, run: int) -> bool:
        held = "SELECT run FROM uploads WHERE organization = $1 AND name = $2"
        return bool(await db.fetchval(held, organization, name) == run)

    monkeypatch.setattr(library_repo, "is_current", same_run)
    await rewrite(db, "library_result", "AND idempotency_key = p_marker", "")


async def run_number(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await rewrite(db, "library_result", "AND run = p_run", "")


async def marker_of_failures(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await rewrite(db, "library_note", "AND idempotency_key = p_marker", "")


async def run_number_of_failures(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await rewrite(db, "library_note", "AND run = p_run", "")


async def fence_of_failures(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await rewrite(db, "job_hold", "RETURN FOUND", "RETURN true")


async def fence(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for twice by who writes a result: before its rows, and at the end."""
    await fence_of_failures(db, monkeypatch)
    await rewrite(db, "job_finish", "AND claim = p_claim AND lease_until IS NOT NULL", "")
    await rewrite(db, "job_finish", "RETURN FOUND", "RETURN true")


async def delete_intent(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    intent = "FROM delete_intents WHERE image_id = p_image"
    await rewrite(db, "image_beaten", intent, f"{intent} AND false")


async def intent_on_the_short_road(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    intent = "FROM delete_intents WHERE image_id = p_image"
    await rewrite(db, "image_arrived", intent, f"{intent} AND false")


async def newer_image(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "PERFORM FROM image_beaten(image, (known.object).key, (p_item ->> 'createdAt')::bigint)"
    await rewrite(db, "upload_enters", asked, "PERFORM WHERE false")


async def run_under_way(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = "AND NOT classification_under_way(seen.status)"
    await rewrite(db, "library_before", guard, "")


async def rising_time(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await rewrite(db, "library_before", "object.event_time >= p_now", "false")


async def etag(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_is_superseded", lambda *_: False)


async def tombstone(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    beaten = order._beaten
    monkeypatch.setattr(order, "_beaten", lambda row, _, event: beaten(row, None, event))


async def tombstone_row(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    bury = "DELETE FROM tombstones WHERE organization = p_organization AND name = p_name"
    await rewrite(db, "library_remove", "RETURN stopped;", f"{bury}; RETURN stopped;")


async def doubt(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "delete_is_doubtful", lambda *_: True)


async def presence(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = order.decide_delete
    monkeypatch.setattr(
        project,
        "decide_delete",
        lambda row, tombstone, event, _, built_in: decide(
            row, tombstone, event, None, built_in=built_in
        ),
    )


@dataclass(frozen=True)
class Case:
    guard: Weaken
    tale: Tale
    ends: str
    telling: bool = False
    short: bool = False
    remote: bool = False  # a remote model's saved reply needs no bytes, which have a marker too


CASES = [
    Case(marker, an_old_result_after_a_new_upload, WRONG, remote=True),
    Case(run_number, an_old_run_after_a_new_one, TWICE),
    Case(marker_of_failures, an_old_death_after_a_new_upload, REPLACED),
    Case(run_number_of_failures, an_old_death_after_a_new_run, LATE),
    Case(fence, a_worker_that_comes_back, TWICE),
    Case(fence_of_failures, a_failure_that_comes_back, LATE),
    Case(delete_intent, deleted_on_its_way, BACK),
    Case(etag, told_backwards, LOST, telling=True),
    Case(tombstone, told_after_the_delete, LOST, telling=True),
    Case(tombstone_row, told_after_the_delete, LOST, telling=True),
    Case(doubt, removed_by_others, DIFFERS, telling=True),
    Case(presence, a_stray_delete, LOST),
    Case(intent_on_the_short_road, deleted_before_it_arrives, BACK, short=True),
    Case(newer_image, arrives_after_a_newer_one, OLDER, short=True),
    Case(run_under_way, arrives_over_a_lost_run, IDLE, short=True),
    Case(rising_time, arrives_within_the_same_moment, SAME_TIME, short=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.guard.__name__)


async def play(case: Case, make_world: MakeWorld) -> None:
    world = make_world(telling=case.telling, remote=case.remote, short=case.short)
    await world.begin()
    moves = Moves(world)
    await case.tale(moves)
    await moves.end()


@each_case
async def test_with_the_guard_all_is_well(case: Case, make_world: MakeWorld) -> None:
    await play(case, make_world)


@each_case
async def test_without_the_guard_it_ends_badly(
    case: Case, make_world: MakeWorld, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await case.guard(database, monkeypatch)
    with pytest.raises(AssertionError, match=case.ends):
        await play(case, make_world)
