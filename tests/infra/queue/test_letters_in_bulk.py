"""Many dead letters at once: all of a kind, all of an organization."""

import pytest

from infra.queue.crew import Number, a_kind, a_queue, rows
from safelight.infra import activity, failpoints
from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.queue import dead_letters
from safelight.infra.queue.dead_letters import DeadLetters, Settled

KIND = a_kind(subject=lambda payload: f"image:{payload.n}")
OTHER = a_kind("test.other")
ACTOR = {"type": "user", "name": "ann"}


async def dead(db: Database, organization: str, kind: str, *numbers: int) -> None:
    """Of these the last died last."""
    await db.execute(
        """
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, died_at,
                          error)
        SELECT $2, $1, '', jsonb_build_object('n', n), $1 || n, 0, 'dead', now(),
               now() + make_interval(secs => at), '{}'
        FROM unnest($3::integer[]) WITH ORDINALITY AS each (n, at)
        """,
        organization,
        kind,
        list(numbers),
    )


def letters(db: Database) -> DeadLetters:
    return a_queue(db, [KIND, OTHER]).dead_letters


async def standing(db: Database) -> list[tuple[str, str, int, str]]:
    found = [(r["organization"], r["kind"], r["payload"]["n"], r["status"]) for r in await rows(db)]
    return sorted(found)


async def test_only_those_of_the_kind_and_the_organization(database: Database) -> None:
    await dead(database, "acme", "test.work", 1, 2)
    await dead(database, "acme", "test.other", 3)
    await dead(database, "globex", "test.work", 4)
    bulk = letters(database)
    assert await bulk.redrive_all(kind="test.work", organization="acme") == Settled(2, 0)
    assert await standing(database) == [
        ("acme", "test.other", 3, "dead"),
        ("acme", "test.work", 1, "queued"),
        ("acme", "test.work", 2, "queued"),
        ("globex", "test.work", 4, "dead"),
    ]
    assert await bulk.discard_all(kind="test.other") == Settled(1, 0)
    assert await bulk.discard_all(organization="acme") == Settled(0, 0)
    assert await bulk.redrive_all() == Settled(1, 0)


async def test_a_bounded_number_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "AT_ONCE", 2)
    await dead(database, "acme", "test.work", 1, 2, 3, 4, 5)
    bulk = letters(database)
    assert await bulk.redrive_all(kind="test.work") == Settled(2, 3)
    assert await bulk.discard_all(kind="test.work") == Settled(2, 1)
    assert await bulk.redrive_all(kind="test.work") == Settled(1, 0)
    assert {n for *_, n, _ in await standing(database)} == {1, 4, 5}


async def test_those_with_a_newer_twin_stay_and_hold_up_nobody(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "AT_ONCE", 2)
    await dead(database, "acme", "test.work", 1, 2, 3, 4, 5)
    queue = a_queue(database, [KIND])
    for number in (3, 4, 5):
        await queue.enqueue(
            database, KIND, Number(number), organization="acme", key=f"acme{number}"
        )
    assert await queue.dead_letters.redrive_all() == Settled(2, 3)
    assert await queue.dead_letters.redrive_all() == Settled(0, 3)


async def test_each_has_its_line_of_history_and_what_follows(database: Database) -> None:
    await dead(database, "acme", "test.work", 1, 2)
    followed = []

    async def follow(_: Unit, payload: Number) -> None:
        followed.append(payload.n)

    bulk = letters(database)
    bulk.when_redriven(KIND, follow)
    await bulk.redrive_all(actor=ACTOR)
    assert sorted(followed) == [1, 2]
    for subject in ("image:1", "image:2"):
        [line] = await activity.of_subject(database, "acme", subject, after=0, limit=9)
        assert (line.type, line.data["actor"]) == ("job_redriven", ACTOR)


@pytest.mark.parametrize("point", ["queue.redrive", "queue.discard"])
async def test_a_death_in_the_middle_leaves_each_as_it_was_or_done(
    database: Database, point: str
) -> None:
    await dead(database, "acme", "test.work", 1, 2, 3)
    bulk = letters(database)
    verb = bulk.redrive_all if point == "queue.redrive" else bulk.discard_all
    failpoints.arm(point, "raise@2")
    with pytest.raises(FailpointError):
        await verb()
    failpoints.disarm(point)
    assert len([each for each in await standing(database) if each[3] == "dead"]) == 2
    assert await verb() == Settled(2, 0)
