"""When machines are in doubt, a person decides."""

import asyncio
from typing import Any

import httpx
import pytest

from safelight.accounts.access import Role
from safelight.approvals.workflow import Approvals
from safelight.submissions.policies.policy import Policy, PolicyOverrides, combined
from submissions.desk import ORG, Desk, rules_of

APPROVALS = f"/api/organizations/{ORG}/approvals"


async def a_doubtful_one(desk: Desk) -> tuple[str, str]:
    """The submission and its approval."""
    desk.tools.score = 0.6
    submission = await desk.submit()
    await desk.work()
    body = await desk.see(submission)
    assert (body["state"], rules_of(body)["safety"]) == ("AWAITING_APPROVAL", "review")
    approval: str = body["approvalId"]
    return submission, approval


async def decide(
    desk: Desk, approval: str, verb: str, role: Role = Role.APPROVER
) -> httpx.Response:
    async with await desk.as_role(role) as client:
        return await client.post(f"{APPROVALS}/{approval}/{verb}", json={"reason": "I looked."})


async def test_a_doubtful_score_asks_a_person(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    async with await desk.as_role(Role.VIEWER) as client:
        [asked] = (await client.get(APPROVALS)).json()["items"]
    assert (asked["id"], asked["subject"]) == (approval, {"type": "submission", "id": submission})
    assert asked["title"] == "Publish cat.jpg?"
    assert "not sure" in asked["description"]
    assert (await desk.public(submission)).status_code == 404
    assert await desk.value(f"inflight:{submission}") is None
    assert await desk.jobs() == []


async def test_approved_it_is_public_at_once(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    assert (await decide(desk, approval, "approve")).status_code == 200
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    shown = await desk.public(submission)
    assert (shown.status_code, shown.content) == (200, desk.tools.seen[0].data)
    assert (await decide(desk, approval, "approve")).status_code == 200
    other = await decide(desk, approval, "reject")
    assert (other.status_code, other.json()["code"]) == (409, "ALREADY_DECIDED")
    assert (await desk.public(submission)).status_code == 200
    kinds = [kind for kind, _ in await desk.story(f"submission:{submission}")]
    assert kinds.count("submission_state_changed") == 5


async def test_rejected_it_never_is(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    assert (await decide(desk, approval, "reject")).status_code == 200
    body = await desk.see(submission)
    assert body["state"] == "REJECTED"
    assert body["rejection"]["code"] == "APPROVAL_REJECTED"
    assert "I looked." in body["rejection"]["message"]
    assert (await desk.public(submission)).status_code == 404
    assert await desk.due("submissions.release") == 1
    left = await desk.db.fetch("SELECT key FROM objects WHERE present AND key ~ '^(sub|rend)'")
    assert left == []


async def test_undecided_it_expires(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    desk.clock.advance(days=7)
    assert await desk.registry.get(Approvals).expire_due() == 1
    body = await desk.see(submission)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "APPROVAL_EXPIRED")
    assert "submit it again" in body["rejection"]["message"]
    assert (await decide(desk, approval, "approve")).status_code == 409
    assert (await desk.public(submission)).status_code == 404


async def test_an_approval_after_its_time_comes_too_late(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    desk.clock.advance(days=7)
    assert (await decide(desk, approval, "approve")).status_code == 409
    assert (await desk.see(submission))["rejection"]["code"] == "APPROVAL_EXPIRED"


async def test_two_approvers_at_once(desk: Desk) -> None:
    for _ in range(3):
        desk.clock.advance(seconds=1)
        submission, approval = await a_doubtful_one(desk)
        answers = await asyncio.gather(
            decide(desk, approval, "approve"), decide(desk, approval, "reject")
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [won] = [answer.json()["status"] for answer in answers if answer.status_code == 200]
        state = (await desk.see(submission))["state"]
        assert state == {"approved": "PUBLISHED", "rejected": "REJECTED"}[won]
        assert (await desk.public(submission)).status_code == (200 if won == "approved" else 404)


async def test_taking_it_back_while_somebody_decides(desk: Desk) -> None:
    """Both lock the same rows in the same order: one comes first, none waits for ever."""
    for verb in ("approve", "reject", "approve"):
        submission, approval = await a_doubtful_one(desk)
        decided, withdrawn = await asyncio.gather(
            decide(desk, approval, verb), withdraw(desk, submission)
        )
        assert decided.status_code in {200, 409}
        assert withdrawn.status_code == 200
        assert (await desk.see(submission))["state"] in {"REJECTED", "WITHDRAWN"}
        assert (await desk.public(submission)).status_code == 404


async def withdraw(desk: Desk, submission: str) -> httpx.Response:
    async with await desk.as_role(Role.MEMBER) as client:
        return await client.post(f"/api/v1/submissions/{submission}/withdraw")


async def test_what_is_taken_back_needs_no_decision(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    answer = await withdraw(desk, submission)
    assert (answer.status_code, answer.json()["rejection"]["code"]) == (200, "POLICY")
    async with await desk.as_role(Role.VIEWER) as client:
        assert (await client.get(APPROVALS)).json()["items"] == []
        asked = (await client.get(f"{APPROVALS}/{approval}")).json()
    assert (asked["status"], asked["reason"]) == ("rejected", "Withdrawn by test.")
    assert (await decide(desk, approval, "approve")).status_code == 409
    assert (await desk.public(submission)).status_code == 404


async def test_those_who_decide_can_look(desk: Desk) -> None:
    submission, approval = await a_doubtful_one(desk)
    preview = f"/api/v1/submissions/{submission}/preview"
    expected = {Role.VIEWER: 403, Role.MEMBER: 403, Role.APPROVER: 200, Role.ADMIN: 200}
    for role, status in expected.items():
        async with await desk.as_role(role) as client:
            response = await client.get(preview)
        assert response.status_code == status, role
    assert response.content == desk.tools.seen[0].data
    assert response.headers["cache-control"] == "private, no-store"
    async with await desk.as_role(Role.ADMIN, "globex") as client:
        assert (await client.get(preview)).status_code == 404
    await decide(desk, approval, "reject")
    async with await desk.as_role(Role.ADMIN) as client:
        assert (await client.get(preview)).status_code == 404


@pytest.mark.parametrize(
    ("score", "state"),
    [
        (0.0, "PUBLISHED"), (0.399, "PUBLISHED"), (0.40, "AWAITING_APPROVAL"),
        (0.849, "AWAITING_APPROVAL"), (0.85, "REJECTED"), (1.0, "REJECTED"),
    ],
)  # fmt: skip
async def test_the_thresholds(desk: Desk, score: float, state: str) -> None:
    desk.tools.score = score
    submission = await desk.submit()
    await desk.work()
    body = await desk.see(submission)
    assert body["state"] == state
    if state == "REJECTED":
        assert body["rejection"]["code"] == "POLICY"


async def test_an_organization_has_its_own_thresholds(desk: Desk) -> None:
    path = f"/api/organizations/{ORG}/submission-policy"
    async with await desk.as_role(Role.ADMIN) as admin:
        before = (await admin.get(path)).json()
        assert (before["safetyBlock"], before["safetyReview"]) == (0.85, 0.4)
        strict: dict[str, Any] = {"safetyBlock": 0.3, "safetyReview": 0.1}
        changed = await admin.put(path, json=strict)
        assert (changed.status_code, changed.json()["own"]) == (200, strict)
        for wrong in ({"safetyBlock": 0.2, "safetyReview": 0.5}, {"safetyBlock": 2}, {"x": 1}):
            assert (await admin.put(path, json=wrong)).status_code == 422
        assert (await admin.get(path)).json() == changed.json()
    async with await desk.as_role(Role.APPROVER) as client:
        assert (await client.get(path)).status_code == 403
    crossed = desk.settings.model_copy(update={"safety_review_score": 0.9})
    assert combined(crossed, PolicyOverrides(safety_block=0.3)) == Policy(0.3, 0.3, frozenset())
    desk.tools.score = 0.35
    submission = await desk.submit()
    await desk.work()
    assert (await desk.see(submission))["state"] == "REJECTED"
