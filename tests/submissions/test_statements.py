"""What the statements of submissions find and touch: rows that differ in one thing."""

from dataclasses import replace
from typing import Any

import pytest

from holding import waits
from safelight.infra.db import Database
from safelight.infra.states import Phase
from safelight.submissions import repo
from safelight.submissions.jobs import PROCESS
from safelight.submissions.lifecycle import ENDED, Submission, SubmissionState
from safelight.submissions.policies import repo as policies
from safelight.submissions.policies.policy import BlocklistEntry, Closeness, Fingerprint, Looks

RECEIVED, PUBLISHED = SubmissionState.RECEIVED, SubmissionState.PUBLISHED
AWAITING = SubmissionState.AWAITING_APPROVAL
NOW = 1000
# Prints may differ in one bit each.
NEAR = Closeness(dhash=1, phash=1)
LOOKS, ALIKE = Looks(Fingerprint(0b0, 0b0)), Fingerprint(0b1, 0b1)
FAR = Fingerprint(-1, -1)
OTHER_D, OTHER_P = Fingerprint(0b11, 0b1), Fingerprint(0b1, 0b11)

SAMPLE = Submission(
    "s", "acme", None, {}, "upload", "cat.jpg", "m", 1, True, "sum", "image/jpeg", 1, RECEIVED,
    created_at=1, updated_at=1,
)  # fmt: skip


@pytest.fixture
async def db(database: Database) -> Database:
    await database.execute("INSERT INTO organizations VALUES ('acme', 1), ('globex', 1)")
    return database


async def add(db: Database, submission_id: str, **changes: Any) -> Submission:
    made = replace(SAMPLE, id=submission_id, **changes)
    async with db.transaction() as connection:
        await repo.add(connection, made)
    return made


async def enqueue(db: Database, submission_id: str) -> None:
    await db.execute("SELECT job_enqueue($1, 'acme', '{}', $2)", PROCESS.name, submission_id)


async def test_waiting_is_to_be_under_way_with_a_job(db: Database) -> None:
    for name, state in (("a", RECEIVED), ("b", RECEIVED), ("c", PUBLISHED)):
        await add(db, name, state=state)
    for name in ("b", "c"):
        await enqueue(db, name)
    views = [await repo.view(db, name, NOW) for name in ("a", "b", "c")]
    assert [view and view.waiting for view in views] == [False, True, False]


async def test_a_page_is_of_one_state_and_begins_where_the_last_one_ended(db: Database) -> None:
    for name, state in (("a", RECEIVED), ("b", PUBLISHED), ("c", RECEIVED)):
        await add(db, name, state=state)
    received = await repo.page(db, "acme", RECEIVED, None, 9, NOW)
    assert [view.submission.id for view in received] == ["c", "a"]
    rest = await repo.page(db, "acme", None, (1, "c"), 9, NOW)
    assert [view.submission.id for view in rest] == ["b", "a"]


async def test_stuck_is_under_way_for_long_with_no_job(db: Database) -> None:
    for name in ("a", "b", "in line"):
        await add(db, name)
    await add(db, "fresh", updated_at=5)
    await add(db, "over", state=PUBLISHED)
    await enqueue(db, "in line")
    stuck = await repo.stuck(db, 5, (0, ""), 9, NOW)
    assert [view.submission.id for view in stuck] == ["a", "b"]
    rest = await repo.stuck(db, 5, (1, "a"), 9, NOW)
    assert [view.submission.id for view in rest] == ["b"]


async def test_two_that_change_one_submission_wait(db: Database) -> None:
    await add(db, "s")
    for lock in (lambda c: repo.lock(c, "s"), lambda c: repo.view_locked(c, "s", NOW)):
        assert await waits(db, lock, lock)


async def test_one_recovery_looks_at_a_time(db: Database) -> None:
    async with db.transaction() as one, db.transaction() as other:
        assert await repo.lock_recovery(one)
        assert not await repo.lock_recovery(other)


# Alike ones


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ("other", False)),
        ({"checksum": "sum", "dhash": None, "phash": None}, ("other", True)),
        ({"organization": "globex"}, None),
        ({"state": RECEIVED}, None),
        ({"dhash": OTHER_D.dhash}, None),
        ({"phash": OTHER_P.phash}, None),
        ({"dhash": None, "phash": None}, None),
        ({"dhash": -1, "phash": -1, "dark_dhash": 1, "dark_phash": 1}, ("other", False)),
        ({"dhash": None, "phash": None, "dark_dhash": 1, "dark_phash": -1}, None),
        ({"dhash": -1, "dark_phash": 1}, None),
    ],
)
async def test_a_published_twin(
    db: Database, changes: dict[str, Any], found: tuple[str, bool] | None
) -> None:
    alike = {"checksum": "else", "dhash": ALIKE.dhash, "phash": ALIKE.phash}
    await add(db, "other", **{"state": PUBLISHED, **alike, **changes})
    assert await policies.published_twin(db, SAMPLE, LOOKS, NEAR) == found


async def test_nothing_is_its_own_twin(db: Database) -> None:
    await add(db, SAMPLE.id, state=PUBLISHED)
    assert await policies.published_twin(db, SAMPLE, Looks(), NEAR) is None


async def block(db: Database, entry_id: str, **facts: Any) -> None:
    known = {"organization": "acme", "checksum": None, "looks": Looks(), **facts}
    entry = BlocklistEntry(id=entry_id, note="", created_by="ada", created_at=1, **known)
    async with db.transaction() as connection:
        await policies.block(connection, entry)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"checksum": "sum"}, ("b", True)),
        ({"checksum": "else"}, None),
        ({"looks": Looks(ALIKE)}, ("b", False)),
        ({"looks": Looks(OTHER_D)}, None),
        ({"looks": Looks(OTHER_P)}, None),
        ({"looks": Looks(FAR, ALIKE)}, ("b", False)),
        ({"looks": Looks(FAR, OTHER_D)}, None),
        ({"checksum": "sum", "organization": "globex"}, None),
    ],
)
async def test_what_is_blocked(
    db: Database, facts: dict[str, Any], found: tuple[str, bool] | None
) -> None:
    await block(db, "b", **facts)
    assert await policies.blocked(db, "acme", "sum", LOOKS, NEAR) == found


async def test_either_look_is_enough(db: Database) -> None:
    await block(db, "b", looks=Looks(ALIKE))
    for looks, found in (
        (Looks(FAR, ALIKE), ("b", False)),
        (Looks(None, ALIKE), ("b", False)),
        (Looks(FAR, Fingerprint(1, -1)), None),
        (Looks(), None),
    ):
        assert await policies.blocked(db, "acme", "sum", looks, NEAR) == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"checksum": "sum"}, True),
        ({"dhash": 1, "phash": 1}, True),
        ({"dark_dhash": 1, "dark_phash": 1, "state": AWAITING}, True),
        ({"dhash": 1, "phash": 3}, False),
        ({"checksum": "sum", "organization": "globex"}, False),
        ({"checksum": "sum", "state": RECEIVED}, False),
        ({"checksum": "sum", "state": SubmissionState.WITHDRAWN}, False),
        ({}, False),
    ],
)
async def test_what_an_entry_takes_down(
    db: Database, changes: dict[str, Any], *, found: bool
) -> None:
    await add(db, "other", **{"checksum": "else", "state": PUBLISHED, **changes})
    entry = BlocklistEntry("b", "acme", "", "sum", LOOKS, "ada", 1)
    assert await policies.shown_of(db, entry, NEAR) == (["other"] if found else [])


class Planned:
    """A database that says how it would answer, and finds nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.plans: list[str] = []

    async def fetch(self, sql: str, *values: object) -> list[Any]:
        rows = await self._db.fetch(f"EXPLAIN {sql}", *values)
        self.plans.append("\n".join(row[0] for row in rows))
        return []

    async def fetchrow(self, sql: str, *values: object) -> None:
        await self.fetch(sql, *values)


@pytest.mark.parametrize("looks", [Looks(), LOOKS, Looks(FAR, ALIKE)], ids=["none", "one", "two"])
async def test_looks_are_compared_without_a_query_for_each_row(db: Database, looks: Looks) -> None:
    """The organization's pictures are locked meanwhile, and there may be many of them."""
    planned: Any = Planned(db)
    await policies.blocked(planned, "acme", "sum", looks, NEAR)
    await policies.published_twin(planned, SAMPLE, looks, NEAR)
    await policies.shown_of(planned, BlocklistEntry("b", "acme", "", "sum", looks, "a", 1), NEAR)
    assert len(planned.plans) == 3
    for plan in planned.plans:
        assert "SubPlan" not in plan
        assert ("bit_count" in plan) == bool(looks.all)


async def test_one_at_a_time_publishes_or_rules_out(db: Database) -> None:
    async def ours(connection: Any) -> None:
        await policies.lock_pictures(connection, "acme")

    async def theirs(connection: Any) -> None:
        await policies.lock_pictures(connection, "globex")

    assert await waits(db, ours, ours)
    assert not await waits(db, ours, theirs)


async def test_the_blocklist_is_an_organizations_own(db: Database) -> None:
    for name in ("a", "b", "c"):
        await block(db, name, checksum=name)
    page = await policies.blocklist(db, "acme", (1, "c"), 9)
    assert [entry.id for entry in page] == ["b", "a"]
    async with db.transaction() as connection:
        assert not await policies.unblock(connection, "globex", "a")
        assert await policies.unblock(connection, "acme", "a")
    assert [entry.id for entry in await policies.blocklist(db, "acme", None, 9)] == ["c", "b"]


# Sources


async def test_of_a_source_those_that_can_be_ended(db: Database) -> None:
    others: list[dict[str, Any]] = [
        {"organization": "globex"},
        {"source_kind": "artifact"},
        {"source_id": "dog.jpg"},
        *({"state": state} for state in ENDED),
    ]
    for number, changes in enumerate(others):
        await add(db, f"other {number}", **changes)
    await add(db, "this")
    found = await repo.of_source(db, "acme", "upload", "cat.jpg")
    assert [one.id for one in found] == ["this"]


async def test_a_page_may_be_of_a_phase(db: Database) -> None:
    for number, state in enumerate(SubmissionState):
        await add(db, f"s{number}", state=state)
    under_way = await repo.page(db, "acme", Phase.UNDER_WAY, None, 9, NOW)
    assert {view.submission.state for view in under_way} == set(
        SubmissionState.in_phase(Phase.UNDER_WAY)
    )


async def test_each_state_is_counted_up_to_so_many(db: Database) -> None:
    await add(db, "other", organization="globex")
    for number in range(3):
        await add(db, f"s{number}")
    await add(db, "shown", state=PUBLISHED)
    counts = await repo.counts(db, "acme", 2)
    assert {state: count for state, count in counts.items() if count} == {RECEIVED: 2, PUBLISHED: 1}


async def test_ids_are_found_in_their_own_organization(db: Database) -> None:
    await add(db, "mine")
    await add(db, "theirs", organization="globex")
    assert set(await repo.of_ids(db, "acme", ["mine", "theirs", "none"])) == {"mine"}
