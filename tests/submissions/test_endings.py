"""Taken back, or its source deleted: it does not go on, or is not shown any more."""

import asyncio

import httpx
import pytest

from safelight.accounts.access import Role
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue.jobs import Done
from safelight.objects.store import Facts
from submissions.desk import ORG, PROCESS, Desk, stream
from submissions.pictures import photo, plain


async def withdraw(
    desk: Desk, submission: str, role: Role = Role.MEMBER, organization: str = ORG
) -> httpx.Response:
    async with await desk.as_role(role, organization) as client:
        return await client.post(f"/api/v1/submissions/{submission}/withdraw")


async def test_a_published_one_is_withdrawn_at_once_and_for_good(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.work()
    etag = (await desk.public(submission)).headers["etag"]
    answer = await withdraw(desk, submission)
    assert (answer.status_code, answer.json()["state"]) == (200, "WITHDRAWN")
    assert (await desk.public(submission)).status_code == 404
    assert (await desk.public(submission, **{"if-none-match": etag})).status_code == 404
    again = await withdraw(desk, submission)
    assert (again.status_code, again.json()) == (200, answer.json())
    assert await desk.due("submissions.release") == 2
    left = await desk.db.fetch("SELECT key FROM objects WHERE present AND key ~ '^(sub|rend)'")
    assert left == []


async def test_one_on_its_way_is_rejected(desk: Desk) -> None:
    submission = await desk.submit()
    answer = await withdraw(desk, submission)
    body = answer.json()
    assert (answer.status_code, body["state"]) == (200, "REJECTED")
    assert body["rejection"] == {"code": "POLICY", "message": "Withdrawn by test."}
    assert await desk.jobs() == []
    assert (await withdraw(desk, submission)).json() == body
    assert await desk.work() == 0


async def test_one_that_is_being_scanned_stops_mattering(desk: Desk) -> None:
    submission = await desk.submit()
    failpoints.arm("submissions.store_rendition", "hang")
    job = await desk.claim()
    assert job
    running = asyncio.ensure_future(desk.handlers[PROCESS].handle(job))
    while (await desk.see(submission))["state"] != "TIER2_SCANNING" or not desk.tools.seen:
        await asyncio.sleep(0.01)
    assert (await withdraw(desk, submission)).json()["state"] == "REJECTED"
    running.cancel()
    await asyncio.wait([running])
    failpoints.disarm()
    await desk.take_over()
    await desk.work()
    assert (await desk.see(submission))["state"] == "REJECTED"
    assert (await desk.public(submission)).status_code == 404
    assert await desk.value(f"inflight:{submission}") is None
    assert await desk.db.fetchval("SELECT count(*) FROM kv") == 0


async def test_a_scan_that_ends_after_it_was_taken_back_publishes_nothing(desk: Desk) -> None:
    submission = await desk.submit()
    original = desk.tools.safety

    async def late(rendition: object) -> float:
        await withdraw(desk, submission)
        return await original(rendition)  # type: ignore[arg-type]  # passed on as it came

    desk.tools.safety = late  # type: ignore[method-assign]  # the test is in the way
    job = await desk.claim()
    assert job
    assert await desk.handlers[PROCESS].handle(job) == Done()
    assert (await desk.see(submission))["state"] == "REJECTED"
    present = "SELECT count(*) FROM objects WHERE present AND key ~ '^renditions/'"
    assert await desk.db.fetchval(present) == 0


async def test_who_may_take_it_back(desk: Desk) -> None:
    submission = await desk.submit()
    assert (await withdraw(desk, submission, Role.VIEWER)).status_code == 403
    assert (await withdraw(desk, submission, Role.ADMIN, "globex")).status_code == 404
    assert (await withdraw(desk, "sub_nothing")).status_code == 404
    async with desk.client() as nobody:
        path = f"/api/v1/submissions/{submission}/withdraw"
        assert (await nobody.post(path)).status_code == 401


# Sources that are deleted


async def test_deleting_the_upload_ends_what_was_submitted_from_it(desk: Desk) -> None:
    published = await desk.submit(photo(), "cat.jpg")
    await desk.work()
    desk.clock.advance(seconds=1)
    async with await desk.as_role() as client:
        wanted = {"source": {"upload": "cat.jpg"}}
        waiting = (await client.post("/api/v1/submissions", json=wanted)).json()["id"]
    other = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.delete("cat.jpg")
    assert (await desk.see(published))["state"] == "WITHDRAWN"
    assert (await desk.public(published)).status_code == 404
    body = await desk.see(waiting)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "SOURCE_GONE")
    assert body["rejection"]["message"] == "Its upload was deleted."
    await desk.work()
    assert (await desk.see(other))["state"] == "PUBLISHED"
    await desk.delete("cat.jpg")
    assert (await desk.see(other))["state"] == "PUBLISHED"


async def test_it_also_ends_what_waits_for_a_person(desk: Desk) -> None:
    desk.tools.score = 0.6
    submission = await desk.submit()
    await desk.work()
    await desk.delete("cat.jpg")
    body = await desk.see(submission)
    assert (body["state"], body["rejection"]["code"]) == ("REJECTED", "SOURCE_GONE")
    async with await desk.as_role(Role.VIEWER) as client:
        path = f"/api/organizations/{ORG}/approvals/{body['approvalId']}"
        approval = (await client.get(path)).json()
    assert (approval["status"], approval["decidedBy"]) == ("rejected", None)


@pytest.mark.parametrize("library", [False, True])
async def test_deleting_a_later_upload_of_that_name_changes_nothing(
    desk: Desk, library: bool
) -> None:
    """Known from the events, or from the library once the events are forgotten."""
    submission = await desk.submit(photo(), "cat.jpg")
    await desk.work()
    desk.clock.advance(seconds=1)
    marker = await desk.put("cat.jpg", plain("red", kind="JPEG"))
    if library:
        await desk.db.execute(
            "INSERT INTO uploads (organization, name, event_time, source, idempotency_key) "
            "VALUES ('acme', 'cat.jpg', $1, 'safelight', $2)",
            desk.clock.ms,
            marker,
        )
        await desk.db.execute("DELETE FROM object_events")
    desk.clock.advance(seconds=1)
    await desk.delete("cat.jpg")
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    await desk.db.execute("DELETE FROM uploads")
    await desk.db.execute("DELETE FROM object_events")
    desk.clock.advance(seconds=1)
    await desk.delete("cat.jpg")  # there is nothing of that name any more
    assert (await desk.see(submission))["state"] == "PUBLISHED"


async def test_the_same_name_put_and_submitted_again_is_another_matter(desk: Desk) -> None:
    first = await desk.submit(photo(), "cat.jpg")
    desk.clock.advance(seconds=1)
    second = await desk.submit(photo("daisy"), "cat.jpg")
    desk.clock.advance(seconds=1)
    await desk.delete("cat.jpg")
    assert (await desk.see(first))["state"] == "RECEIVED"
    assert (await desk.see(second))["rejection"]["code"] == "SOURCE_GONE"


async def test_somebody_elses_word_does_not_delete_what_is_there(desk: Desk) -> None:
    """The library drops it, too. Of what is gone it says nothing new."""
    published = await desk.submit(photo(), "cat.jpg")
    await desk.work()
    waiting = await desk.submit(photo("daisy"), "daisy.jpg")
    desk.clock.advance(seconds=1)
    for name in ("cat.jpg", "daisy.jpg"):
        await desk.tell_deleted(name, source="r2")
    assert (await desk.see(published))["state"] == "PUBLISHED"
    assert (await desk.see(waiting))["state"] == "RECEIVED"
    await desk.store.delete(f"{ORG}/cat.jpg")
    desk.clock.advance(seconds=1)
    await desk.tell_deleted("cat.jpg", source="r2")
    assert (await desk.see(published))["state"] == "WITHDRAWN"


async def test_an_artifact_can_be_submitted_and_deleted(desk: Desk) -> None:
    await desk.store.put("artifacts/art-1", stream(photo("coffee")), Facts("image/jpeg"))
    await desk.db.execute(
        "INSERT INTO artifacts (id, organization, generation_id, content_type, size_bytes, "
        "checksum, metadata, created_at) VALUES ('art-1', $1, 'gen', 'image/jpeg', 1, '', '{}', 1)",
        ORG,
    )
    async with await desk.as_role() as client:
        wanted = {"source": {"artifact": "art-1"}}
        submission = (await client.post("/api/v1/submissions", json=wanted)).json()["id"]
    async with await desk.as_role(Role.MEMBER, "globex") as client:
        assert (await client.post("/api/v1/submissions", json=wanted)).status_code == 404
    await desk.work()
    body = await desk.see(submission)
    assert (body["state"], body["source"]) == ("PUBLISHED", {"artifact": "art-1"})
    async with desk.units.open(ORG) as unit:
        await desk.opened.deleted_sources.on_artifact_deleted(unit, "art-1")
    assert await desk.work("submissions.source_gone") == 1
    assert (await desk.see(submission))["state"] == "WITHDRAWN"


async def test_videos_cannot_be_submitted(desk: Desk) -> None:
    await desk.store.put("artifacts/art-2", stream(b"video"), Facts("video/mp4"))
    await desk.db.execute(
        "INSERT INTO artifacts (id, organization, generation_id, content_type, size_bytes, "
        "checksum, metadata, created_at) VALUES ('art-2', $1, 'gen', 'video/mp4', 1, '', '{}', 1)",
        ORG,
    )
    async with await desk.as_role() as client:
        wanted = {"source": {"artifact": "art-2"}}
        response = await client.post("/api/v1/submissions", json=wanted)
    assert (response.status_code, response.json()["code"]) == (422, "INVALID_REQUEST")


async def test_deleting_while_submitting(desk: Desk, database: Database) -> None:
    """The delete comes first and there is nothing to submit, or it ends what was submitted."""
    for number in range(6):
        name = f"{number}.jpg"
        await desk.put(name, photo())
        async with await desk.as_role() as client:
            wanted = {"source": {"upload": name}}
            response, _ = await asyncio.gather(
                client.post("/api/v1/submissions", json=wanted), desk.delete(name)
            )
        assert response.status_code in {202, 404}
        if response.status_code == 202:
            body = await desk.see(response.json()["id"])
            assert body["rejection"]["code"] == "SOURCE_GONE"
