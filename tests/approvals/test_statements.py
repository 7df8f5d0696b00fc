"""What the statements of approvals find: rows that differ in one thing."""

from approvals.office import Office
from holding import waits
from safelight.approvals import repo
from safelight.approvals.lifecycle import Approval, ApprovalStatus


async def add(office: Office, approval_id: str, organization: str = "acme", at: int = 1) -> None:
    pending = ApprovalStatus.PENDING
    made = Approval(
        approval_id, organization, pending, "t", "d", None, "ada", created_at=at, expires_at=at + 5
    )
    async with office.db.transaction() as connection:
        await repo.add(connection, made)


async def decide(office: Office, approval_id: str) -> None:
    await office.db.execute(
        "UPDATE approvals SET status = 'approved', decided_at = 1 WHERE id = $1", approval_id
    )


async def test_those_are_due_that_are_pending_and_whose_time_has_run_out(office: Office) -> None:
    for number in range(3):
        await add(office, f"a{number}", at=number)
    await decide(office, "a0")
    assert [one.id for one in await repo.due(office.db, 6, 9)] == ["a1"]


async def test_one_is_found_in_its_own_organization(office: Office) -> None:
    await add(office, "a1")
    assert await repo.find(office.db, "acme", "a1")
    assert await repo.find(office.db, "globex", "a1") is None


async def test_a_page_is_of_one_state_and_begins_where_the_last_one_ended(office: Office) -> None:
    for number in range(3):
        await add(office, f"a{number}")
    await add(office, "b0", "globex")
    await decide(office, "a0")
    before = await repo.page(office.db, "acme", None, (1, "a2"), 9)
    assert [one.id for one in before] == ["a1", "a0"]
    pending = await repo.page(office.db, "acme", ApprovalStatus.PENDING, None, 9)
    assert [one.id for one in pending] == ["a2", "a1"]


async def test_two_that_decide_wait(office: Office) -> None:
    await add(office, "a1")
    assert await waits(office.db, lambda c: repo.lock(c, "a1"), lambda c: repo.lock(c, "a1"))


async def test_those_that_wait_come_oldest_first(office: Office) -> None:
    for number in range(4):
        await add(office, f"a{number}", at=number // 2)
    await add(office, "b0", "globex")
    await decide(office, "a0")
    waiting = await repo.longest_pending(office.db, "acme", 1)
    assert [one.id for one in waiting] == ["a1", "a2"]
