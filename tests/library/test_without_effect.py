"""Events that cannot change anything are done, in the history of the name and in the log."""

import obstore
import pytest
from structlog.testing import CapturingLogger

from library.conftest import MakeWorld
from library.reconciling import entry, story, world_of


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    logger = CapturingLogger()
    monkeypatch.setattr("safelight.library.project.log", logger)
    return logger


@pytest.mark.parametrize("reason", ["object_missing", "unusable_metadata"])
async def test_a_create_without_a_usable_object(
    make_world: MakeWorld, log: CapturingLogger, reason: str
) -> None:
    world = await world_of(make_world, telling=True)
    key = f"{world.organization}/a.jpg"
    if reason == "unusable_metadata":  # somebody else's tool put it there
        await obstore.put_async(world.bucket, key, b"one")
    await world.tell(world.notice("a.jpg", await world.peek("a.jpg") or "gone"))
    await world.drain()
    assert await entry(world, "a.jpg") is None
    assert await story(world, "a.jpg") == [("event_received", "created"), ("event_dropped", reason)]
    [call] = log.calls
    assert (call.kwargs["key"], call.kwargs["reason"]) == (key, reason)
    assert await world.dead_letters() == []
