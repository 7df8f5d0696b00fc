"""Away is not failure: what a submission waits for is waited for, for a day, and costs no retry."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from objects.trouble import unreadable_blobs
from safelight.accounts.access import Role
from safelight.classification.base import Drawing, ModelAway, ModelError, Prediction
from safelight.infra import failpoints
from safelight.objects.store import StoreUnavailable
from safelight.sandbox.protocol import Rendition
from safelight.sandbox.sandbox import ChildrenAway, SandboxTimeout
from safelight.settings import load
from safelight.submissions.findings import Label, Opinion
from safelight.submissions.lifecycle import Submission
from safelight.submissions.models.safety import SafetyModel
from safelight.submissions.models.vision import Vision, VisionUnreachable
from safelight.submissions.recovery.records import to_ms
from safelight.submissions.recovery.recover import stuck
from safelight.submissions.scan import LoadedModels
from submissions.desk import ORG, Desk, FixedTools
from submissions.limits import HandLimit
from submissions.oracle import Oracle, oracle

MINUTE = 60_000


async def pass_time(desk: Desk, *, minutes: int, step: int = 5) -> None:
    """As a server would live through it: recovery looks every five minutes, workers work."""
    for _ in range(minutes // step):
        desk.clock.advance(minutes=step)
        await desk.recovery.run()
        await desk.work()


async def state(desk: Desk, submission: str) -> str:
    return str((await desk.see(submission))["state"])


async def submit_into(desk: Desk, trouble: BaseException) -> str:
    desk.tools.trouble = trouble
    submission = await desk.submit()
    await desk.work()
    return submission


# A remote model


@dataclass
class RemoteTools(FixedTools):
    vision: Vision | None = None

    async def opinion(self, submission: Submission, view: Rendition) -> Opinion | None:
        assert self.vision
        return await self.vision.opinion(submission, view)


@pytest.fixture
def remote() -> Iterator[Oracle]:
    with oracle() as told:
        yield told


@pytest.fixture
async def asking(desk: Desk, remote: Oracle) -> AsyncIterator[Desk]:
    vision = Vision(load({"vision_url": remote.url}))
    desk.tools = RemoteTools(vision=vision)
    desk.open()
    yield desk
    await vision.close()


@pytest.mark.parametrize("status", [503, 429, 500, 401])
async def test_an_hour_without_the_model_rejects_nothing(
    asking: Desk, remote: Oracle, status: int
) -> None:
    remote.status = status
    submission = await asking.submit()
    await asking.work()
    await pass_time(asking, minutes=60)
    assert await state(asking, submission) == "TIER2_SCANNING"
    assert len(remote.asked) == 5  # at once, and after 5, 5, 10 and 20 minutes more
    assert (await asking.value(f"recovery:budget:{submission}"))["count"] == 0
    assert await asking.jobs() == []  # no dead letter either
    remote.status = 200
    await pass_time(asking, minutes=20)
    assert await state(asking, submission) == "PUBLISHED"


@pytest.mark.parametrize(("status", "body"), [(422, b"{}"), (200, b"what?")])
async def test_an_answer_that_is_no_outage_spends_the_budget(
    asking: Desk, remote: Oracle, status: int, body: bytes
) -> None:
    remote.status, remote.body = status, body
    submission = await asking.submit()
    await asking.work()
    await pass_time(asking, minutes=60)
    seen = await asking.see(submission)
    assert (seen["state"], seen["rejection"]["code"]) == ("REJECTED", "STUCK_EXHAUSTED")
    assert len(remote.asked) == 4  # the first, and three retries


# Everything else that can be away


@pytest.mark.parametrize(
    "trouble",
    [
        StoreUnavailable(),
        ModelAway(),
        VisionUnreachable(),
        ChildrenAway(),
        ConnectionResetError(),
        TimeoutError(),
        OSError(28, "No space left on device"),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
async def test_whatever_is_away_is_waited_for(desk: Desk, trouble: BaseException) -> None:
    submission = await submit_into(desk, trouble)
    assert (await desk.value(f"inflight:{submission}"))["error"]["away"] is True
    await pass_time(desk, minutes=120)
    assert await state(desk, submission) == "TIER2_SCANNING"
    desk.tools.trouble = None
    await pass_time(desk, minutes=20)
    assert await state(desk, submission) == "PUBLISHED"


async def test_a_disk_that_cannot_be_read_is_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await desk.submit()
    with unreadable_blobs(monkeypatch, errno.EIO):
        await desk.work()
        error = (await desk.value(f"inflight:{submission}"))["error"]
        await pass_time(desk, minutes=120)
    assert (error["classification"], error["away"]) == ("STORAGE_ERROR", True)
    assert str(desk.directory) not in error["message"]
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 0
    await pass_time(desk, minutes=20)
    assert await state(desk, submission) == "PUBLISHED"


@pytest.mark.parametrize("trouble", [ModelError("no"), SandboxTimeout(), ValueError("what")])
async def test_what_is_not_away_does_not_say_so(desk: Desk, trouble: BaseException) -> None:
    submission = await submit_into(desk, trouble)
    assert "away" not in (await desk.value(f"inflight:{submission}"))["error"]


async def test_after_a_day_the_budget_is_spent(desk: Desk) -> None:
    submission = await submit_into(desk, StoreUnavailable())
    since = desk.clock.ms
    while desk.clock.ms < since + 24 * 60 * MINUTE:
        assert await state(desk, submission) == "TIER2_SCANNING"
        await pass_time(desk, minutes=60, step=20)
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] <= 1
    await pass_time(desk, minutes=75)
    seen = await desk.see(submission)
    assert (seen["state"], seen["rejection"]["code"]) == ("REJECTED", "STUCK_EXHAUSTED")


async def test_an_outage_neither_spends_nor_restores(desk: Desk) -> None:
    """Two failures of its own, hours of outage, and another one: the third retry is the last."""
    submission = await submit_into(desk, ModelError("no"))
    await pass_time(desk, minutes=10)
    desk.tools.trouble = StoreUnavailable()
    await pass_time(desk, minutes=180)
    budget = await desk.value(f"recovery:budget:{submission}")
    assert (budget["count"], budget["waits"] > 5) == (2, True)
    desk.tools.trouble = ModelError("no")
    await pass_time(desk, minutes=20)
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 2
    await pass_time(desk, minutes=20)
    assert (await desk.value(f"recovery:budget:{submission}"))["count"] == 3
    await pass_time(desk, minutes=20)
    assert await state(desk, submission) == "REJECTED"


async def test_a_pause_may_be_longer_than_the_record_lives(desk: Desk) -> None:
    """What it waits for is forgotten after an hour; that it waits is not."""
    slow = desk.settings.model_copy(update={"recovery_backoff_seconds": (7200.0,)})
    desk.settings = slow
    desk.open()
    submission = await submit_into(desk, StoreUnavailable())
    await pass_time(desk, minutes=12 * 60)
    budget = await desk.value(f"recovery:budget:{submission}")
    assert (budget["count"], await state(desk, submission)) == (0, "TIER2_SCANNING")


async def test_two_recoveries_at_once_start_it_once(desk: Desk) -> None:
    submission = await submit_into(desk, StoreUnavailable())
    desk.clock.advance(minutes=6)
    dealt = await asyncio.gather(*(desk.recovery.one(ORG, submission) for _ in range(4)))
    assert sorted(dealt) == [False, False, False, True]
    budget = await desk.value(f"recovery:budget:{submission}")
    assert (budget["count"], budget["waits"], len(await desk.jobs())) == (0, 1, 1)


async def test_a_budget_of_the_earlier_shape_goes_on(desk: Desk) -> None:
    submission = await submit_into(desk, StoreUnavailable())
    earlier = {"count": 3, "lastRetryAt": None, "nextRetryAfter": None}
    await desk.put_value(f"recovery:budget:{submission}", earlier)
    desk.clock.advance(minutes=6)
    assert await desk.recovery.run() == 1
    budget = await desk.value(f"recovery:budget:{submission}")
    assert (budget["count"], budget["waits"]) == (3, 1)


# A store that takes the connection and says nothing


class Silence:
    """Takes a question, says that it did, and never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, *_: object, **__: object) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


async def error_of_a_run(
    desk: Desk, limit: HandLimit, reached: Awaitable[object]
) -> tuple[str, bool]:
    """Its time ends when it has come that far."""
    job = await desk.claim()
    assert job
    running = asyncio.create_task(limit.process.handle(job))
    async with asyncio.timeout(60):
        await reached
    limit.reach()
    await running
    error = (await desk.value(f"inflight:{job.payload.submissionId}"))["error"]
    return error["classification"], error.get("away", False)


async def test_a_silent_store_is_away_and_a_silent_scan_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = HandLimit(desk, monkeypatch)
    for name in ("one.jpg", "two.jpg", "three.jpg"):
        await desk.submit(name=name)
    hanging = failpoints.arm("submissions.tier1", "hang").passed()
    assert await error_of_a_run(desk, limit, hanging) == ("SCAN_TIMEOUT", False)
    failpoints.disarm()
    for method in ("get", "put_with"):
        silence = Silence()
        with monkeypatch.context() as silent:
            silent.setattr(type(desk.store), method, staticmethod(silence))
            seen = await error_of_a_run(desk, limit, silence.asked.wait())
        assert seen == ("SCAN_TIMEOUT", True)


@dataclass
class Labelling(FixedTools):
    """Asks a classifier, as the application does."""

    models: LoadedModels | None = None

    async def label(self, submission: Submission, view: Rendition) -> Label:
        assert self.models
        return await self.models.label(submission, view)


class SilentClassifier:
    name, model, model_hash, dimensions = "silent", "silent-1", None, 0

    def __init__(self, method: str, *, remote: bool) -> None:
        self.remote = remote
        self.silence = Silence()
        setattr(self, method, self.silence)

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def classify(self, data: bytes | int, **_: bool) -> Prediction:
        raise NotImplementedError

    async def draw(self, data: bytes | int, **_: bool) -> Drawing:
        raise NotImplementedError


@pytest.mark.parametrize("method", ["open", "classify"])
@pytest.mark.parametrize("remote", [False, True])
async def test_a_silent_vendor_is_away_and_a_silent_model_of_ours_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, remote: bool, method: str
) -> None:
    """However long a vendor may take: the scan's time may be shorter."""
    classifier = SilentClassifier(method, remote=remote)
    models = LoadedModels(desk.db, SafetyModel(desk.sandbox), classifier)
    desk.tools = Labelling(models=models)
    desk.open()
    async with await desk.as_role(Role.ADMIN) as admin:
        path = f"/api/organizations/{ORG}/submission-policy"
        await admin.put(path, json={"blockedLabels": ["rifle"]})
    limit = HandLimit(desk, monkeypatch)
    await desk.submit()
    seen = await error_of_a_run(desk, limit, classifier.silence.asked.wait())
    assert seen == ("SCAN_TIMEOUT", remote)


# What people see of it


async def test_people_are_told_what_it_waits_for_and_until_when(desk: Desk) -> None:
    submission = await submit_into(desk, ModelAway())
    desk.clock.advance(minutes=4)
    stale = (await desk.see(submission))["staleness"]
    assert "It waits for the model that looks at pictures" in stale["message"]
    assert stale["nextAttemptAt"][11:16] in stale["message"]
    await pass_time(desk, minutes=180)
    stale = (await desk.see(submission))["staleness"]
    assert "for 3 hours" in stale["message"]
    assert desk.clock.ms < to_ms(stale["nextAttemptAt"]) <= desk.clock.ms + 25 * MINUTE
    [row] = await stuck(desk.db, desk.clock.now_ms(), desk.process.tempo)
    assert row.to_json()["away"] is True
    told = [
        data for kind, data in await desk.story(f"submission:{submission}") if "retried" in kind
    ]
    assert [data["attempt"] for data in told] == list(range(1, len(told) + 1))
