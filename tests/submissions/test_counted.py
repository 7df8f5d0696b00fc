"""What submissions keep counts as stored: the copy that is pinned, and what is published."""

from harness import picture
from safelight.accounts.access import Role
from safelight.objects import repo as objects
from safelight.objects.store import Facts
from safelight.quotas import repo as quotas
from safelight.quotas.lifecycle import Meter
from submissions.desk import ORG, Desk, stream
from submissions.pictures import photo, with_archive

RELEASE = "submissions.release"
SIZE = len(photo())


async def end(desk: Desk, submission: str) -> None:
    async with await desk.as_role() as client:
        answer = await client.post(f"/api/v1/submissions/{submission}/withdraw")
    assert answer.status_code == 200, answer.text


async def rendition(desk: Desk, submission: str) -> int:
    found = await objects.find(desk.db, f"renditions/{submission}")
    assert found
    return found[0].size


async def test_a_life(desk: Desk) -> None:
    """Pinned, published, released, withdrawn, released: counted as long as it is there."""
    submission = await desk.submit()
    assert await desk.counted() == await desk.held() == 2 * SIZE
    await desk.work()
    shown = await rendition(desk, submission)
    assert await desk.counted() == await desk.held() == 2 * SIZE + shown
    await desk.due(RELEASE)
    assert await desk.counted() == await desk.held() == SIZE + shown
    await end(desk, submission)
    for _ in range(2):
        await desk.due(RELEASE)
    assert await desk.counted() == await desk.held() == SIZE
    assert await desk.counted("globex") == 0


async def test_what_is_rejected_is_given_back(desk: Desk) -> None:
    await desk.submit(with_archive(photo()))
    await desk.work()
    await desk.due(RELEASE)
    await desk.delete("cat.jpg")
    assert await desk.counted() == await desk.held() == 0


async def test_deleting_the_source_again_and_again_hoards_nothing_unseen(desk: Desk) -> None:
    for number in range(3):
        await desk.submit(name=f"{number}.jpg")
        await desk.delete(f"{number}.jpg")
        assert await desk.counted() == await desk.held() == (number + 1) * SIZE
    await desk.due(RELEASE)
    assert await desk.counted() == await desk.held() == 0


async def test_the_copy_of_an_artifact_counts_for_its_organization(desk: Desk) -> None:
    """Its own bytes were counted with its row."""
    data = picture()
    async with desk.db.transaction() as connection:
        await connection.execute(
            "INSERT INTO objects (key, present, size, content_type, metadata, etag, event_time, "
            "blob) SELECT 'artifacts/art_1', true, size, content_type, $2, etag, event_time, blob "
            "FROM objects WHERE key = $1",
            await _stored(desk, data),
            {"organizationId": "globex"},
        )
        before = await desk.counted("globex")
        etag = await connection.fetchval("SELECT etag FROM objects WHERE key = 'artifacts/art_1'")
        assert await objects.share(connection, "artifacts/art_1", etag, "submissions/sub_1", 1)
    assert await desk.counted("globex") == before + len(data)
    await desk.store.delete("submissions/sub_1")
    assert await desk.counted("globex") == before
    await desk.store.delete("artifacts/art_1")
    assert await desk.counted("globex") == before


async def test_what_is_stored_again_counts_once(desk: Desk) -> None:
    """As by a run whose lease had ended. What another version stored tells nobody, and counts not."""
    for metadata, data in (({}, b"old"), ({"organizationId": ORG}, b"newer"), ({}, b"older")):
        facts = Facts("image/jpeg", metadata)
        await desk.store.put("renditions/sub_1", stream(data), facts)
        assert await desk.counted() == (len(data) if metadata else 0)


async def test_a_full_organization_submits_nothing_more(desk: Desk) -> None:
    await desk.put("cat.jpg", photo())
    await quotas.put_limits(desk.db, ORG, {Meter.STORED_BYTES: 2 * SIZE})
    wanted = {"source": {"upload": "cat.jpg"}}
    async with await desk.as_role(Role.MEMBER) as client:
        answers = [await client.post("/api/v1/submissions", json=wanted) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 507]
    assert answers[1].json()["code"] == "QUOTA_EXCEEDED"
    assert await desk.counted() == await desk.held() == 2 * SIZE


async def _stored(desk: Desk, data: bytes) -> str:
    await desk.put("one.jpg", data)
    return f"{ORG}/one.jpg"
