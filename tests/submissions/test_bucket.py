"""The same with a bucket as the store: what was submitted is copied instead of shared."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from objects.stores import Watch, fresh_bucket
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.infra.injected import SystemClock
from safelight.sandbox.sandbox import Sandbox
from safelight.submissions.submit import SubmissionRequest, Submit
from seaweed import Seaweed
from submissions.desk import ORG, Desk
from submissions.pictures import opened, photo, plain


@pytest.fixture
async def desk(
    request: pytest.FixtureRequest,
    database: Database,
    tmp_path: Path,
    sandbox: Sandbox,
    weed: Seaweed,
) -> AsyncIterator[Desk]:
    """The parameter says whose events count, as the store's address does."""
    bucket, events = fresh_bucket(weed), getattr(request, "param", "own")
    store = bucket.store(database, tmp_path / "spool", Watch(), events=events)
    made = Desk(database, directory=tmp_path, sandbox=sandbox, bucket=store)
    await made.organization(ORG)
    yield made
    await store.close()


async def test_a_life_in_a_bucket(desk: Desk) -> None:
    submission = await desk.submit(photo("daisy"), "flower.jpg")
    await desk.put("flower.jpg", plain("red", (300, 200), "JPEG"))
    pinned = await desk.store.get(f"submissions/{submission}")
    assert await joined(pinned.chunks) == photo("daisy")
    assert await desk.counted() == await desk.held()
    await desk.work()
    assert (await desk.see(submission))["state"] == "PUBLISHED"
    shown = await desk.public(submission)
    assert opened(shown.content).size == opened(photo("daisy")).size
    assert await desk.counted() == await desk.held()
    assert (await desk.public(submission, range="bytes=0-3")).content == shown.content[:4]
    async with await desk.as_role() as client:
        await client.post(f"/api/v1/submissions/{submission}/withdraw")
    assert await desk.due("submissions.release") == 2
    left = [found.key for found in await desk.store.list()]
    assert left == ["acme/flower.jpg"]
    assert await desk.counted() == await desk.held() == len(plain("red", (300, 200), "JPEG"))


@pytest.mark.parametrize("point", ["submissions.copy", "objects.put", "submissions.add"])
async def test_a_copy_that_fails_is_no_submission(desk: Desk, point: str) -> None:
    """With a bucket's client a process cannot be forked, so the step fails instead of everything."""
    await desk.put("cat.jpg", photo())
    wanted = SubmissionRequest(ORG, "upload", "cat.jpg", None, {"type": "user", "name": "ada"})
    failpoints.arm(point, "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await desk.registry.get(Submit).submit(wanted)
    failpoints.disarm()
    assert await desk.db.fetchval("SELECT count(*) FROM submissions") == 0
    assert await desk.jobs() == []
    assert await desk.counted() == len(photo())
    made = await desk.registry.get(Submit).submit(wanted)
    await desk.work()
    assert (await desk.see(made.id))["state"] == "PUBLISHED"
    assert await desk.counted() == await desk.held()


@pytest.mark.parametrize(
    ("desk", "state"),
    [("own", "RECEIVED"), ("bucket", "REJECTED")],
    indirect=["desk"],
)
async def test_whose_word_counts_that_an_upload_is_deleted(desk: Desk, state: str) -> None:
    """A bucket's own, where its notifications are the events: of such a one the index knows only
    what we did to it. Otherwise ours."""
    desk.clock.ms = SystemClock().now_ms()  # as the bucket's
    submission = await desk.submit()
    desk.clock.advance(minutes=1)
    await desk.tell_deleted("cat.jpg", source="r2")
    assert (await desk.see(submission))["state"] == state
