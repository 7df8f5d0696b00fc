"""Asking a person, over HTTP and under pressure."""

import asyncio
import re

import pytest

from approvals.office import ADA, ORG, WEEK_MS, Office
from safelight.accounts.access import Role
from safelight.approvals.workflow import AlreadyDecided
from safelight.infra import failpoints

FIELDS = {
    "id", "status", "title", "description", "subject", "requestedBy", "createdAt", "expiresAt",
    "decidedBy", "decidedAt", "reason",
}  # fmt: skip


async def test_a_request_is_made_and_listed(office: Office) -> None:
    body = {"title": "Publish the poster", "description": "For the fair."}
    made = await office.call("POST", role=Role.MEMBER, json=body)
    assert made.status_code == 201
    approval = made.json()
    assert set(approval) == FIELDS
    assert re.fullmatch(r"apr_[0-9a-z]{20}", approval["id"])
    assert (approval["status"], approval["subject"]) == ("pending", None)
    assert (approval["requestedBy"], approval["decidedBy"]) == ("test", None)
    listed = (await office.call("GET", role=Role.VIEWER)).json()
    assert listed == {"items": [approval], "nextCursor": None}
    one = await office.call("GET", f"/{approval['id']}", role=Role.VIEWER)
    assert one.json() == approval


async def test_approving_reports_and_removes_it_from_the_list(office: Office) -> None:
    approval = await office.ask()
    office.clock.advance(minutes=3)
    answer = await office.call("POST", f"/{approval}/approve", json={"reason": "Lovely."})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["decidedBy"], body["reason"]) == ("approved", "test", "Lovely.")
    assert body["decidedAt"] > body["createdAt"]
    assert (await office.call("GET")).json()["items"] == []
    done = (await office.call("GET", "?status=approved")).json()["items"]
    assert [item["id"] for item in done] == [approval]


async def test_rejecting_needs_a_reason(office: Office) -> None:
    approval = await office.ask()
    for wrong in ({}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 1001}, None):
        answer = await office.call("POST", f"/{approval}/reject", json=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")
    answer = await office.call("POST", f"/{approval}/reject", json={"reason": "Too dark."})
    assert (answer.status_code, answer.json()["reason"]) == (200, "Too dark.")
    assert (await office.call("GET")).json()["items"] == []


async def test_approving_needs_no_body(office: Office) -> None:
    approval = await office.ask()
    assert (await office.call("POST", f"/{approval}/approve")).status_code == 200


async def test_deciding_twice(office: Office) -> None:
    approval = await office.ask()
    first = await office.call("POST", f"/{approval}/approve", json={"reason": "a"})
    office.clock.advance(minutes=1)
    again = await office.call("POST", f"/{approval}/approve", json={"reason": "b"})
    assert (again.status_code, again.json()) == (200, first.json())
    other = await office.call("POST", f"/{approval}/reject", json={"reason": "c"})
    assert (other.status_code, other.json()["code"]) == (409, "ALREADY_DECIDED")
    assert "approved already" in other.json()["error"]
    assert len(await office.story()) == 2


async def test_who_may_do_what(office: Office) -> None:
    body = {"title": "t", "description": "d"}
    assert (await office.call("POST", role=Role.VIEWER, json=body)).status_code == 403
    approval = await office.ask()
    for verb in ("approve", "reject"):
        path = f"/{approval}/{verb}"
        answer = await office.call("POST", path, role=Role.MEMBER, json={"reason": "r"})
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    async with await office.as_role(Role.ADMIN, "globex") as outsider:
        here = f"/api/organizations/{ORG}/approvals"
        elsewhere = "/api/organizations/globex/approvals"
        for path in (here, f"{here}/{approval}", f"{elsewhere}/{approval}"):
            assert (await outsider.get(path)).status_code == 404
        for path in (f"{here}/{approval}/approve", f"{elsewhere}/{approval}/approve"):
            assert (await outsider.post(path)).status_code == 404
    async with office.client() as nobody:
        assert (await nobody.get(f"/api/organizations/{ORG}/approvals")).status_code == 401


async def test_what_cannot_be_asked(office: Office) -> None:
    for body in (
        {"description": "d"},
        {"title": ""},
        {"title": "  "},
        {"title": "x" * 201},
        {"title": "t", "description": "x" * 4001},
        {"title": "t", "more": 1},
        {"title": "a\0b"},
    ):
        answer = await office.call("POST", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST"), body


async def test_pages(office: Office) -> None:
    made = []
    for number in range(5):
        office.clock.advance(seconds=number % 2)  # some at the same moment
        made.append(await office.ask(f"Number {number}"))
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await office.call("GET", f"?limit=2&status=all{cursor}")).json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert sorted(seen) == sorted(made)
    assert (await office.call("GET", "?status=maybe")).status_code == 422
    other_list = await office.call("GET", f"?status=pending{cursor}")
    assert other_list.status_code == 422


async def test_it_expires_to_rejected(office: Office) -> None:
    late, fresh = await office.ask(about_thing=True), None
    office.clock.advance(days=6)
    fresh = await office.ask()
    assert await office.approvals.expire_due() == 0
    office.clock.advance(days=1)
    assert await office.approvals.expire_due() == 1
    assert await office.approvals.expire_due() == 0
    body = (await office.call("GET", f"/{late}")).json()
    assert (body["status"], body["reason"], body["decidedBy"]) == ("rejected", "expired", None)
    assert office.thing.heard == [(late, "rejected")]
    assert [item["id"] for item in (await office.call("GET")).json()["items"]] == [fresh]


async def test_a_decision_after_its_time_finds_it_expired(office: Office) -> None:
    for verb, status in (("approve", 409), ("reject", 200)):
        approval = await office.ask(about_thing=True)
        office.clock.ms += WEEK_MS
        answer = await office.call("POST", f"/{approval}/{verb}", json={"reason": "late"})
        assert answer.status_code == status
        body = (await office.call("GET", f"/{approval}")).json()
        assert (body["status"], body["reason"], body["decidedBy"]) == ("rejected", "expired", None)
        assert office.thing.heard[-1] == (approval, "rejected")


async def test_history_and_messages(office: Office) -> None:
    approval = await office.ask("Shall we?", about_thing=True)
    await office.approvals.approve_request(ORG, approval, {"type": "user", "name": "bo"}, "yes")
    requested, approved, thing = await office.story()
    assert requested[:2] == (f"approval:{approval}", "approval_requested")
    assert requested[2] == {
        "id": approval, "title": "Shall we?", "status": "pending", "actor": ADA,
    }  # fmt: skip
    assert approved[:2] == (f"approval:{approval}", "approval_approved")
    assert {key: approved[2][key] for key in ("from", "to", "decidedBy", "reason")} == {
        "from": "pending", "to": "approved", "decidedBy": "bo", "reason": "yes",
    }  # fmt: skip
    assert thing[:2] == ("thing:1", "thing_decided")
    also = await office.db.fetchval("SELECT count(*) FROM activity WHERE also = 'thing:1'")
    assert also == 2


@pytest.mark.parametrize("verbs", [("approve", "approve"), ("approve", "reject")])
async def test_two_approvers_at_once(office: Office, verbs: tuple[str, str]) -> None:
    for _ in range(5):
        approval = await office.ask(about_thing=True)
        answers = await asyncio.gather(
            *(office.call("POST", f"/{approval}/{v}", json={"reason": "r"}) for v in verbs)
        )
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == ([200, 200] if verbs[0] == verbs[1] else [200, 409])
        [decided] = [heard for heard in office.thing.heard if heard[0] == approval]
        assert (await office.call("GET", f"/{approval}")).json()["status"] == decided[1]


async def test_many_at_once_decide_once(office: Office) -> None:
    approval = await office.ask(about_thing=True)

    async def decide(number: int) -> str:
        actor = {"type": "user", "name": f"user{number}"}
        try:
            if number % 2:
                done = await office.approvals.approve_request(ORG, approval, actor, None)
            else:
                done = await office.approvals.reject_request(ORG, approval, actor, "no")
        except AlreadyDecided:
            return "refused"
        return done.decided_by or ""

    winners = {await task for task in [asyncio.ensure_future(decide(n)) for n in range(12)]}
    assert len(winners - {"refused"}) == 1
    assert len(office.thing.heard) == 1


async def test_what_cannot_follow_keeps_it_undecided(office: Office) -> None:
    approval = await office.ask(about_thing=True)
    office.thing.trouble = ConnectionResetError()
    with pytest.raises(ConnectionResetError):
        await office.approvals.approve_request(ORG, approval, ADA, None)
    failpoints.arm("approvals.write_decision", "raise")
    office.thing.trouble = None
    with pytest.raises(failpoints.FailpointError):
        await office.approvals.approve_request(ORG, approval, ADA, None)
    failpoints.disarm()
    assert (await office.call("GET", f"/{approval}")).json()["status"] == "pending"
    assert len(await office.story()) == 1
    await office.approvals.approve_request(ORG, approval, ADA, None)
    assert office.thing.heard == [(approval, "approved")]


async def test_a_moot_question_is_called_off(office: Office) -> None:
    approval = await office.ask(about_thing=True)
    async with office.approvals.units.open(ORG) as unit:
        for moot in (approval, approval, "apr_none"):  # again, or of nothing, it does nothing
            await office.approvals.call_off(unit, moot, ADA, "withdrawn")
    told = [kind for _, kind, _ in await office.story()]
    assert told == ["approval_requested", "approval_rejected"]
    assert office.thing.heard == []
