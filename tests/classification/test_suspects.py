"""An image whose first attempt left no word is redrawn in the sandbox before the model sees it."""

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from harness import picture
from inprocess import Application, application
from safelight.classification.base import Prediction, Undecodable
from safelight.classification.jobs import RUN
from safelight.classification.run import Classification
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.injected import SystemClock
from safelight.infra.queue.jobs import Dead, Job, JobId, LeaseLost
from safelight.objects.store import Facts, ObjectStore
from safelight.sandbox.sandbox import Sandbox


class Seeing:
    """A classifier that remembers what it was shown."""

    name, model, model_hash, remote = "seeing", "seeing", None, False

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def classify(self, data: bytes, **_: bool) -> Prediction:
        self.seen.append(data)
        return Prediction("TABBY", 0.5)


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as app:
        yield app


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    await sandbox.close()


async def put(app: Application, content: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    facts = Facts("image/png", {"idempotencyKey": "m"})
    await app.registry.get(ObjectStore).put("default/a.png", chunks(), facts)
    await app.db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, run) "
        "VALUES ('default', 'a.png', 1, 'safelight', 'm', 1)"
    )
    await app.db.execute(
        "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, "
        "started_at) VALUES ('default', 'a.png', 'm', 1, 'pending', 1)"
    )


def attempt(number: int) -> "Job[object]":
    payload = {"name": "a.png", "idempotencyKey": "m", "run": 1}
    return Job(JobId(1), RUN, "default", payload, number, 1, deaths=number - 1)  # type: ignore[arg-type]  # by hand


def run(app: Application, classifier: Seeing, sandbox: Sandbox) -> Classification:
    registry = app.registry
    store = registry.get(ObjectStore)
    units = Units(app.db, registry.get(Bus), SystemClock())
    return Classification(units, store, classifier, sandbox)


async def test_only_a_suspect_is_redrawn(app: Application, sandbox: Sandbox) -> None:
    original = picture("PNG", (1500, 900))
    await put(app, original)
    classifier = Seeing()
    for number in (1, 2):
        with pytest.raises(LeaseLost):  # no such job is in the queue; what was shown is the point
            await run(app, classifier, sandbox).handle(attempt(number))  # type: ignore[arg-type]  # by hand
    first, second = classifier.seen
    assert first == original
    assert second != original
    assert max(Image.open(io.BytesIO(second)).size) <= 1024


async def test_one_that_fails_there_is_given_up(app: Application, sandbox: Sandbox) -> None:
    await put(app, picture("PNG", (300, 300))[:200])
    classifier = Seeing()
    verdict = await run(app, classifier, sandbox).handle(attempt(2))  # type: ignore[arg-type]  # by hand
    assert isinstance(verdict, Dead)
    assert isinstance(verdict.error, Undecodable)
    assert classifier.seen == []
