"""What an organization rules out is not published, whenever it says so; and what it rules out after
that is taken down."""

import asyncio
from typing import Any

import httpx
import pytest

from holding import until_waiting
from safelight.accounts.access import Role
from safelight.approvals.workflow import Approvals
from safelight.infra import failpoints
from safelight.infra.queue.jobs import Done
from submissions.desk import ORG, PROCESS, Desk, rules_of
from submissions.pictures import as_kind, near_copy, photo, plain, with_archive

PATH = f"/api/organizations/{ORG}/blocklist"
TAKE_DOWN = "submissions.take_down"
ADA = {"type": "user", "name": "ada"}


async def rule_out(desk: Desk, **body: Any) -> dict[str, Any]:
    async with await desk.as_role(Role.ADMIN) as admin:
        answer = await admin.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def renditions(desk: Desk) -> list[str]:
    query = "SELECT split_part(key, '/', 2) FROM objects WHERE key ~ '^renditions/' AND present"
    return [row[0] for row in await desk.db.fetch(query)]


async def in_doubt(desk: Desk, data: bytes, name: str = "cat.jpg") -> str:
    """One that waits for a person."""
    desk.tools.score = 0.5
    submission = await desk.submit(data, name)
    await desk.work()
    assert (await desk.see(submission))["state"] == "AWAITING_APPROVAL"
    desk.tools.score = 0.02
    return submission


async def test_what_tier_1_rejected_is_known_by_its_looks(desk: Desk) -> None:
    """An archive behind it: rejected, blocked, and seen again without the archive."""
    first = await desk.submit(with_archive(photo("daisy")), "first.jpg")
    await desk.work()
    assert (await desk.see(first))["state"] == "REJECTED"
    assert (await rule_out(desk, submission=first))["fingerprint"] is not None
    again = await desk.submit(near_copy(photo("daisy")), "again.jpg")
    await desk.work()
    assert rules_of(await desk.see(again)) == {"blocklist": "block"}


async def test_what_an_earlier_version_rejected_is_looked_at_now(desk: Desk) -> None:
    """It kept what tier 1 found and not how the picture looks. When the bytes are gone from
    everywhere, the checksum is what is left."""
    first = await desk.submit(with_archive(photo("daisy")), "first.jpg")
    await desk.work()
    seen = (await rule_out(desk, submission=first))["fingerprint"]
    await desk.db.execute("UPDATE submissions SET dhash = NULL, phash = NULL")
    assert (await desk.see(first))["state"] == "REJECTED"
    pinned = await rule_out(desk, submission=first)
    assert await desk.due("submissions.release") == 1
    source = await rule_out(desk, submission=first)
    assert pinned["fingerprint"] == source["fingerprint"] == seen
    await desk.delete("first.jpg")
    neither = await rule_out(desk, submission=first)
    assert (neither["fingerprint"], neither["checksum"]) == (None, source["checksum"])


# What tier 1 has not looked at


async def test_ruled_out_while_tier_1_looks_at_it(desk: Desk) -> None:
    """The entry has its looks all the same: the picture saved again is not published either."""
    submission = await desk.submit(photo("daisy"))
    armed = failpoints.arm("submissions.tier1", "hold@1")
    working = asyncio.create_task(desk.work())
    await armed.passed()
    assert (await rule_out(desk, submission=submission))["fingerprint"] is not None
    failpoints.disarm("submissions.tier1")
    await working
    again = await desk.submit(as_kind("JPEG", "daisy", quality=60), "again.jpg")
    await desk.work()
    for each in (submission, again):
        assert rules_of(await desk.see(each)) == {"blocklist": "block"}


async def test_what_was_never_looked_at_is_looked_at_now(desk: Desk) -> None:
    """As long as its bytes are anywhere: pinned, or still those of its source."""
    waiting = await desk.submit(photo("daisy"), "daisy.jpg")
    seen = (await rule_out(desk, submission=waiting))["fingerprint"]
    assert seen is not None
    async with await desk.as_role() as client:
        await client.post(f"/api/v1/submissions/{waiting}/withdraw")
    assert (await rule_out(desk, submission=waiting))["fingerprint"] == seen
    assert await desk.due("submissions.release") == 1
    assert (await rule_out(desk, submission=waiting))["fingerprint"] == seen


@pytest.mark.parametrize("gone", ["replaced", "deleted"])
async def test_what_nobody_can_look_at_any_more_is_refused(desk: Desk, gone: str) -> None:
    """Its checksum alone would rule out nothing that is saved again."""
    submission = await desk.submit(photo("daisy"), "daisy.jpg")
    async with await desk.as_role() as client:
        await client.post(f"/api/v1/submissions/{submission}/withdraw")
    await desk.due("submissions.release")
    desk.clock.advance(seconds=1)
    if gone == "deleted":
        await desk.delete("daisy.jpg")
    else:
        await desk.put("daisy.jpg", photo("coffee"))
    async with await desk.as_role(Role.ADMIN) as admin:
        answer = await admin.post(PATH, json={"submission": submission})
        assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")
        assert "Upload the picture" in answer.json()["error"]
        assert (await admin.get(PATH)).json()["items"] == []


async def test_a_file_without_looks_is_known_by_its_checksum(desk: Desk) -> None:
    """As one is that tier 1 has rejected: no picture, or one without contrast."""
    for data in (b"no picture at all", plain("red", kind="JPEG")):
        submission = await desk.submit(data)
        early = await rule_out(desk, submission=submission)
        await desk.work()
        late = await rule_out(desk, submission=submission)
        assert (early["fingerprint"], early["checksum"]) == (None, late["checksum"])
        assert late["fingerprint"] is None
        await desk.due("submissions.release")
        assert (await rule_out(desk, submission=submission))["checksum"] == late["checksum"]


# What is public


async def test_what_is_public_is_taken_down(desk: Desk) -> None:
    public = await desk.submit(photo("daisy"), "daisy.jpg")
    other = await desk.submit(photo("coffee"), "coffee.jpg")
    await desk.work()
    await rule_out(desk, submission=public)
    assert await desk.work(TAKE_DOWN) == 1
    assert (await desk.see(public))["state"] == "WITHDRAWN"
    assert (await desk.public(public)).status_code == 404
    assert (await desk.public(other)).status_code == 200
    kind, told = (await desk.story(f"submission:{public}"))[-1]
    assert (kind, told["to"]) == ("submission_state_changed", "WITHDRAWN")
    assert "does not publish" in told["reason"]
    await desk.due("submissions.release")
    assert await renditions(desk) == [other]


async def test_what_looks_alike_goes_too_and_nobody_elses(desk: Desk) -> None:
    copy = await desk.submit(near_copy(photo("daisy")), "copy.jpg")
    await desk.work()
    waiting = await in_doubt(desk, photo("daisy"), "waiting.jpg")
    await desk.put("daisy.jpg", photo("daisy"), organization="globex")
    async with await desk.as_role(Role.MEMBER, "globex") as client:
        wanted = {"source": {"upload": "daisy.jpg"}}
        theirs = (await client.post("/api/v1/submissions", json=wanted)).json()["id"]
    await desk.work()
    async with await desk.as_role(Role.ADMIN) as admin:
        answer = await send(admin, photo("daisy"))
        assert answer.status_code == 201, answer.text
    await desk.work(TAKE_DOWN)
    assert (await desk.see(copy))["state"] == "WITHDRAWN"
    body = await desk.see(waiting)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "POLICY")
    assert await desk.db.fetchval("SELECT status FROM approvals") == "rejected"
    assert (await desk.public(theirs)).status_code == 200


async def test_an_entry_that_is_gone_again_takes_nothing_down(desk: Desk) -> None:
    public = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.work()
    entry = await rule_out(desk, submission=public)
    async with await desk.as_role(Role.ADMIN) as admin:
        assert (await admin.delete(f"{PATH}/{entry['id']}")).status_code == 204
    assert await desk.work(TAKE_DOWN) == 1
    assert (await desk.public(public)).status_code == 200


# What is about to be


async def test_ruled_out_while_it_waits_for_a_person(desk: Desk) -> None:
    """Also when the person is quicker than what takes it down."""
    submission = await in_doubt(desk, photo("daisy"))
    await rule_out(desk, submission=submission)
    approval = (await desk.see(submission))["approvalId"]
    await desk.registry.get(Approvals).approve_request(ORG, approval, ADA, None)
    body = await desk.see(submission)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "POLICY")
    assert rules_of(body)["blocklist"] == "block"
    assert (await desk.public(submission)).status_code == 404
    assert await desk.work(TAKE_DOWN) == 1
    assert (await desk.see(submission))["state"] == "REJECTED"


async def test_ruled_out_while_its_rendition_is_made(desk: Desk) -> None:
    submission = await desk.submit(photo("daisy"))
    armed = failpoints.arm("submissions.store_rendition", "hold@1")
    working = asyncio.create_task(desk.work())
    await armed.passed()
    await rule_out(desk, submission=submission)
    failpoints.disarm("submissions.store_rendition")
    await working
    body = await desk.see(submission)
    assert (body["state"], rules_of(body)) == ("REJECTED", {"blocklist": "block"})
    await desk.due("submissions.release")
    assert await renditions(desk) == []


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
async def test_of_two_at_once_a_person_decides_about_the_second(desk: Desk, kind: str) -> None:
    """Both are through all checks before either is published; the same file, or saved again."""
    first = await desk.submit(photo("daisy"), "first.jpg")
    copy = photo("daisy") if kind == "JPEG" else as_kind(kind, "daisy")
    second = await desk.submit(copy, "second", f"image/{kind.lower()}")
    jobs = [await desk.claim(), await desk.claim()]
    armed = failpoints.arm("submissions.store_rendition", "hold")
    working = [asyncio.ensure_future(desk.handlers[PROCESS].handle(job)) for job in jobs if job]
    await armed.passed(2)
    failpoints.disarm("submissions.store_rendition")
    assert await asyncio.gather(*working) == [Done(already=True)] * 2
    seen = {(body := await desk.see(each))["state"]: rules_of(body) for each in (first, second)}
    assert seen == {"PUBLISHED": {}, "AWAITING_APPROVAL": {"duplicate": "review"}}
    assert await desk.db.fetchval("SELECT count(*) FROM approvals") == 1


async def test_who_publishes_waits_for_who_rules_out(desk: Desk) -> None:
    """The lock: an entry that is not committed yet is waited for, and then seen."""
    submission = await desk.submit(photo("daisy"))
    armed = failpoints.arm("submissions.store_rendition", "hold@1")
    working = asyncio.create_task(desk.work())
    await armed.passed()
    async with await desk.as_role(Role.ADMIN) as admin:
        writing = failpoints.arm("unit.close", "hold@1")
        blocking = asyncio.create_task(admin.post(PATH, json={"submission": submission}))
        await writing.passed()
        failpoints.disarm("submissions.store_rendition")
        await until_waiting(desk.db, 1)
        failpoints.disarm("unit.close")
        await asyncio.gather(working, blocking)
    assert rules_of(await desk.see(submission)) == {"blocklist": "block"}


# A picture that nobody has submitted


async def send(client: httpx.AsyncClient, data: bytes, **query: str) -> httpx.Response:
    files = {"file": ("no.jpg", data, "image/jpeg")}
    return await client.post(f"{PATH}/pictures", files=files, params=query)


async def test_a_picture_can_be_ruled_out_before_anybody_submits_it(desk: Desk) -> None:
    async with await desk.as_role(Role.ADMIN) as admin:
        answer = await send(admin, photo("daisy"), note="not ours")
        assert answer.status_code == 201, answer.text
        entry = answer.json()
        assert (entry["note"], entry["fingerprint"] is not None) == ("not ours", True)
        await desk.put("coffee.jpg", photo("coffee"))
        by_name = await admin.post(PATH, json={"upload": "coffee.jpg"})
        assert (by_name.status_code, by_name.json()["checksum"] is not None) == (201, True)
    for name in ("daisy", "coffee"):
        submission = await desk.submit(near_copy(photo(name)), f"{name}.jpg")
        await desk.work()
        assert rules_of(await desk.see(submission)) == {"blocklist": "block"}


async def test_pictures_that_cannot_be_ruled_out(desk: Desk) -> None:
    async with await desk.as_role(Role.ADMIN) as admin:
        for data, status, words in (
            (b"just some text", 422, "cannot be opened"),
            (photo()[:3000], 422, "cannot be opened"),
            (b"", 400, "empty"),
            (plain("red") + bytes(25 << 20), 413, "over the limit"),
        ):
            answer = await send(admin, data)
            assert answer.status_code == status, answer.text
            assert words in answer.json()["error"]
        assert (await admin.post(f"{PATH}/pictures", json={})).status_code == 400
        for body in ({"upload": "none.jpg"}, {"artifact": "none"}):
            assert (await admin.post(PATH, json=body)).status_code == 404
        assert (await admin.get(PATH)).json()["items"] == []
    async with await desk.as_role(Role.APPROVER) as client:
        assert (await send(client, photo())).status_code == 403
