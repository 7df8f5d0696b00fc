"""What the statements of the queue touch and what they leave alone: rows that differ in one thing."""

from datetime import timedelta
from typing import Any

import pytest

from holding import waits
from infra.queue.crew import WORK, rows
from safelight.infra.db import Database
from safelight.infra.queue import repo
from safelight.infra.queue.jobs import Failure, Job, PutBack, Tended

LEASE = timedelta(seconds=10)


async def put(db: Database, **columns: Any) -> int:
    """A job as it is given; one that runs is leased, one that is dead has died."""
    row: dict[str, Any] = {"kind": WORK.name, "status": "queued", **columns}
    row["owner"] = row.get("owner", "me") if row["status"] == "running" else None
    job_id: int = await db.fetchval(
        """
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, claim,
                          attempts, deaths, owner, lease, lease_until, died_at, created_at)
        VALUES ($1, $2, $3, $11, $4, $10, $5, now() + make_interval(secs => $6), 1, 1, $7, $8,
                interval '10 s', CASE WHEN $8::text IS NOT NULL THEN now() + interval '10 s' END,
                CASE WHEN $5 = 'dead' THEN now() END, now() - make_interval(secs => $9))
        RETURNING id
        """,
        row["kind"],
        row.get("organization", "acme"),
        row.get("node", ""),
        row.get("key"),
        row["status"],
        float(row.get("due_in", 0)),
        row.get("deaths", 0),
        row["owner"],
        float(row.get("age", 0)),
        row.get("priority", 0),
        {"n": row.get("n", 1)},
    )
    return job_id


async def statuses(db: Database) -> list[str]:
    return [row["status"] for row in await db.fetch("SELECT status FROM jobs ORDER BY id")]


async def loaded(db: Database, job_id: int) -> Job[Any]:
    row = await db.fetchrow("SELECT * FROM jobs WHERE id = $1", job_id)
    assert row
    return Job.load(WORK, row)


async def test_a_worker_gives_back_its_own(database: Database) -> None:
    for owner in ("me", "you"):
        await put(database, status="running", owner=owner)
    assert await repo.give_back(database, "me") == 1
    assert await statuses(database) == ["queued", "running"]


@pytest.mark.parametrize(("status", "claims"), [("queued", 0), ("running", 1)])
async def test_a_job_that_is_not_ours_is_left_as_it_is(
    database: Database, status: str, claims: int
) -> None:
    """Given back, its claim is still that of whoever had it; taken by another, it is a newer one."""
    job = await loaded(database, await put(database, status=status))
    await database.execute("UPDATE jobs SET claim = claim + $1", claims)
    before = await rows(database)
    async with database.transaction() as connection:
        assert not await repo.hold(connection, job)
        assert not await repo.put_off(connection, job, 1)
        assert not await repo.bury(connection, job, Failure("CODE", "words"))
    await repo.renew(database, [job], 2 * LEASE)
    assert await repo.put_back(database, [(job, PutBack(1, None))]) == set()
    assert await repo.finish(database, [job]) == set()
    assert await rows(database) == before


async def test_living_are_those_that_wait_or_run_for_a_value(database: Database) -> None:
    await put(database)
    await put(database, status="dead", organization="dead")
    await put(database, kind="test.else", organization="else")
    await put(database, n=2, organization="two")
    wanted = [("acme", "1"), ("dead", "1"), ("else", "1"), ("two", "1")]
    assert await repo.living(database, WORK.name, "n", wanted) == {("acme", "1")}


async def test_letters_are_about_one_organization_kind_and_fact(database: Database) -> None:
    about = await put(database, status="dead")
    await put(database, status="dead", organization="else")
    await put(database, status="dead", kind="test.else")
    await put(database, status="dead", n=2)
    found = await repo.letters_about(database, WORK.name, "acme", {"n": 1})
    assert [row["id"] for row in found] == [about]


@pytest.mark.parametrize("status", ["dead", "running"])
async def test_only_a_waiting_job_is_moved_to_another_time(database: Database, status: str) -> None:
    await put(database, status=status, key="k")
    await put(database, key="other")
    assert await repo.reschedule(database, WORK.name, "k", None, 60) is None
    assert await statuses(database) == [status, "queued"]


async def test_a_key_is_asked_for_with_its_kind(database: Database) -> None:
    lives = "SELECT job_lives('test.work', 'k')"
    await put(database, key="k", kind="test.else")
    await put(database, key="other")
    await put(database, key="k", status="dead")
    assert not await database.fetchval(lives)
    assert await repo.cancel(database, WORK.name, "k", running=True) is None
    await put(database, key="k")
    assert await database.fetchval(lives)


@pytest.mark.parametrize(
    ("status", "waits"), [("queued", False), ("running", False), ("delayed", True)]
)
async def test_how_the_living_job_of_a_key_stands(
    database: Database, status: str, waits: bool
) -> None:
    await put(database, key="k", kind="test.else")
    await put(database, key="other", status="delayed")
    await put(database, key="k", status="dead")
    standing = "SELECT * FROM job_standing('test.work', 'k')"
    assert tuple(await database.fetchrow(standing) or ()) == (None, None, None)
    await put(database, key="k", status=status)
    await database.execute("UPDATE jobs SET error = '{}'")
    row = await database.fetchrow(standing)
    assert row
    assert (row["status"], row["next_at"] is not None) == (status, waits)
    assert row["error"] == ({} if waits else None)


async def test_who_is_at_work(database: Database) -> None:
    await put(database, status="running", n=7)
    await put(database, status="running", organization="else")
    await put(database, status="running", kind="test.else")
    for status in ("queued", "delayed", "dead"):
        await put(database, status=status)
    found = await database.fetch("SELECT jobs_at_work('test.work', 'acme') AS payload")
    assert [row["payload"] for row in found] == [{"n": 7}]


async def test_a_letter_that_no_job_was_tried_for(database: Database) -> None:
    error = {"code": "E", "message": "why"}
    await database.execute("SELECT job_letter('test.work', '', '{\"n\": 3}', $1)", error)
    [letter] = await repo.dead_letters(database, None, None, None, 9)
    assert (letter["kind"], letter["error"], letter["attempts"]) == ("test.work", error, 0)
    assert await repo.redrive(database, letter["id"], None)  # type: ignore[arg-type]  # one statement


async def test_a_node_adopts_jobs_of_others_by_their_keys(database: Database) -> None:
    """Dead ones too: somebody may want them run, and the files are here."""
    await put(database, key="k", node="left")
    await put(database, key="own", node="here")
    await put(database, key="k", node="left", kind="test.else")
    await put(database, key="other", node="left")
    await put(database, key="own", node="left", status="dead")
    await put(database, key="own", node="left", status="dead", kind="test.else")
    await put(database, key="own", node="here", status="dead")
    assert await repo.adopt(database, WORK.name, ["k", "own"], "here") == 2
    nodes = await database.fetch("SELECT node FROM jobs ORDER BY id")
    assert [row["node"] for row in nodes] == [
        "here", "here", "left", "left", "here", "left", "here",
    ]  # fmt: skip


async def test_what_waits_for_a_node_is_counted_by_kind(database: Database) -> None:
    await database.execute(
        "INSERT INTO job_schedules VALUES ('mine', 'k', 'left', 1, now() - interval '61 minutes'), "
        "('yours', 'k', 'served', 1, now() - interval '59 minutes')"
    )
    await put(database, node="left", key="mine")  # what it does by the clock
    await put(database, node="left", key="a", age=100)
    await put(database, node="left", key="b", status="dead")
    await put(database, node="left", kind="test.else")
    await put(database, node="left", kind="test.else", status="dead")
    await put(database, node="served")
    await put(database)
    rows = await database.fetch(
        "SELECT node, of_kind, others, served, oldest < now() - interval '99 s' AS old "
        "FROM jobs_by_node('test.work') ORDER BY node"
    )
    assert [tuple(row) for row in rows] == [
        ("left", 2, 1, False, True), ("served", 1, 0, True, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "kinds"),
    [
        ({}, ["test.work"]),
        ({"status": "running"}, ["test.else", "test.work"]),
        ({"status": "dead"}, ["test.work"]),
    ],
)
async def test_whose_jobs_wait_for_a_node(
    database: Database, job: dict[str, Any], kinds: list[str]
) -> None:
    statement = "SELECT jobs_owner_of_next($1, 'left')"
    await put(database, node="left", key="else", kind="test.other")
    await put(database, node="left", key="dead", kind="test.else", status="dead")
    await put(database, key="here")
    assert await database.fetchval(statement, ["test.work", "test.else"]) is None
    await put(database, node="left", key="k", **job)
    assert await database.fetchval(statement, kinds) == "acme"


@pytest.mark.parametrize(("dead", "taken"), [(True, ["a", "b", "d"]), (False, ["a", "b", "e"])])
async def test_jobs_are_taken_away_from_a_node(
    database: Database, dead: bool, taken: list[str]
) -> None:
    await put(database, node="left", key="a")
    await put(database, node="left", key="b", status="running")
    await put(database, node="left", key="d", status="dead")
    await put(database, node="left", key="e")
    await put(database, node="left", key="f", kind="test.else")
    await put(database, node="left", key="g", organization="else")
    await put(database, node="here", key="h")
    statement = "SELECT jobs_take_away('test.work', 'left', 'acme', 3, $1)"
    assert sorted(await database.fetchval(statement, dead)) == taken
    assert len(await rows(database)) == 4


async def test_what_a_node_was_to_do_by_the_clock_ends(database: Database) -> None:
    await database.execute(
        "INSERT INTO job_schedules VALUES ('mine', 'k', 'left', 1, now()), "
        "('yours', 'k', 'here', 1, now())"
    )
    await put(database, node="left", key="mine")
    await put(database, node="left", key="other")
    await put(database, node="here", key="yours")
    await database.execute("SELECT node_ticks_end('left')")
    assert [row["key"] for row in await rows(database)] == ["other", "yours"]
    assert await database.fetchval("SELECT count(*) FROM job_schedules") == 2


# Claiming

ELSEWHERE: list[dict[str, Any]] = [
    {"kind": "test.else"},
    {"node": "there"},
    {"status": "delayed", "due_in": 60},
]


@pytest.mark.parametrize(
    ("after", "limit", "found"),
    [("", 9, "a b c"), ("b", 9, "c a b"), ("b", 2, "c a"), ("c", 9, "a b c"), ("aa", 9, "b c a")],
)
async def test_organizations_go_round_once(
    database: Database, after: str, limit: int, found: str
) -> None:
    for organization in ("c", "a", "b"):
        await put(database, organization=organization)
    for beside in [*ELSEWHERE, {"priority": 1}]:
        for organization in ("A", "ab", "bb", "d"):
            await put(database, organization=organization, **beside)
    organizations = await database.fetchval(
        "SELECT job_organizations($1, '', 0, $2, $3)", WORK.name, after, limit
    )
    assert organizations == found.split()


async def test_a_claim_takes_what_is_ready_here(database: Database) -> None:
    """What is elsewhere neither comes along nor stands in the way by being more urgent."""
    for beside in ELSEWHERE:
        for priority in (0, 9):
            await put(database, **beside, priority=priority)
    ready = {await put(database), await put(database, node="here")}
    taken = await repo.claim(database, [(WORK.name, 9, "")], "here", "me", LEASE)
    assert {row["id"] for row in taken} == ready


async def test_a_suspect_is_taken_when_it_is_due_here(database: Database) -> None:
    suspect: dict[str, Any] = {"status": "delayed", "deaths": 2}
    for beside in ({"deaths": 1}, {"due_in": 60}, {"kind": "test.else"}, {"node": "there"}):
        await put(database, **{**suspect, **beside})
    due = await put(database, **suspect)
    taken = [await repo.claim_suspect(database, [WORK.name], "here", "me", LEASE) for _ in range(2)]
    assert [[row["id"] for row in each] for each in taken] == [[due], []]


# Workers


async def test_enrolling_forgets_those_who_left_long_ago(database: Database) -> None:
    """Not who came just now, who holds a job, or who is there."""
    for owner in ("me", "new", "holds", "there", "left"):
        await database.execute(
            "INSERT INTO job_workers VALUES ($1, now() - make_interval(mins => $2))",
            owner,
            59 if owner == "new" else 61,
        )
    await put(database, status="running", owner="holds")
    async with database.connection() as session:
        await session.execute("SELECT presence_lock('there')")
        async with database.connection() as enrolling:
            await repo.enrol(enrolling, "me", "node_1", "0")
            await enrolling.execute("SELECT pg_advisory_unlock_all()")
        await session.execute("SELECT pg_advisory_unlock_all()")
    left = await database.fetch("SELECT owner FROM job_workers ORDER BY 1")
    assert [row["owner"] for row in left] == ["holds", "me", "new", "there"]


async def test_jobs_are_taken_over_from_who_is_gone(database: Database) -> None:
    for owner in ("gone", "there", "else"):
        await put(database, status="running", owner=owner)
    async with database.connection() as session:
        await session.execute("SELECT presence_lock('there')")
        await repo.take_over(database, ["gone", "there"])
        await session.execute("SELECT pg_advisory_unlock_all()")
    assert await statuses(database) == ["queued", "running", "running"]


async def tend(db: Any, *, owner: str = "me", **options: Any) -> Tended:
    return await repo.tend(db, [WORK.name], "here", ["s"], owner=owner, **options)


async def test_who_moves_jobs_on_waits_for_nobody(database: Database) -> None:
    """Whoever has a row is about to change it anyway."""
    for job in ({}, {"due_in": 60}, {"deaths": 2}):
        await put(database, status="delayed", **job)
    await put(database)
    for until in ("now()", "now() + interval '1 hour'"):
        leased = await put(database, status="running", owner="gone")
        await database.execute(f"UPDATE jobs SET lease_until = {until} WHERE id = $1", leased)
    await database.execute("UPDATE jobs SET delayed_at = now() + interval '1 hour' WHERE id = 2")
    await database.execute("INSERT INTO job_schedules VALUES ('s', 'k', '', 60, now())")
    before = await statuses(database)

    async def lock(db: Any) -> None:
        await db.execute("SELECT FROM jobs FOR UPDATE")
        await db.execute("SELECT FROM job_schedules FOR UPDATE")

    for move in (
        tend,
        lambda db: repo.claim(db, [(WORK.name, 9, "")], "here", "me", LEASE),
        lambda db: repo.take_over(db, ["gone"]),
        lambda db: repo.claim_suspect(db, [WORK.name], "here", "me", LEASE),
        lambda db: db.execute("SELECT job_mend_times()"),
    ):
        assert not await waits(database, lock, move)
    assert await statuses(database) == before


async def test_what_is_due_is_moved_on(database: Database) -> None:
    """And not what is due later, a suspect, or leased."""
    for job in ({}, {"due_in": 60}, {"deaths": 2}):
        await put(database, status="delayed", **job)
    await put(database, status="running")
    await tend(database)
    assert await statuses(database) == ["queued", "delayed", "delayed", "running"]


@pytest.mark.parametrize(
    ("owner", "held", "patient", "status"),
    [
        ("me", True, False, "running"),
        ("me", False, False, "queued"),
        ("you", True, False, "queued"),
        ("you", False, True, "running"),
    ],
)
async def test_a_lease_that_ended_is_taken_unless_it_is_held(
    database: Database, owner: str, held: bool, patient: bool, status: str
) -> None:
    job = await put(database, status="running", owner=owner)
    await database.execute("UPDATE jobs SET lease_until = now()")
    seen = await tend(database, held=[job] if held else [], patient=patient)
    assert await statuses(database) == [status]
    assert (seen.wait is None) == (patient or status == "queued")


async def test_what_is_seen_of_the_queue(database: Database) -> None:
    for beside in ELSEWHERE[:2]:
        await put(database, **beside)
        await put(database, status="delayed", deaths=2, due_in=-60, **beside)
    await put(database, status="delayed", deaths=1, due_in=60)
    seen = await tend(database)
    assert (seen.ready, seen.suspect, seen.absent) == ([], None, [])
    assert seen.wait
    assert 0 < seen.wait <= 60
    await put(database)
    await put(database, status="delayed", deaths=2, due_in=30)
    for owner in ("me", "gone", "unknown"):
        await put(database, status="running", owner=owner)
    await database.execute("INSERT INTO job_workers VALUES ('me'), ('gone')")
    seen = await tend(database)
    assert (seen.ready, seen.absent) == ([WORK.name], ["gone"])
    assert seen.suspect
    assert 0 < seen.suspect <= 30


@pytest.mark.parametrize(("next_in", "fires"), [(-1, 1), (59, 0), (120, 1)])
async def test_a_schedule_fires_when_it_is_due_or_lies(
    database: Database, next_in: int, fires: int
) -> None:
    await database.execute(
        "INSERT INTO job_schedules VALUES ('s', 'k', '', 60, now() + make_interval(secs => $1))",
        next_in,
    )
    await database.execute("INSERT INTO job_schedules VALUES ('other', 'k', '', 60, now())")
    await tend(database)
    assert await database.fetchval("SELECT count(*) FROM jobs") == fires
