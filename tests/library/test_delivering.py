"""Taking events to those who react: what this process has just written is not read back."""

from typing import Any

import pytest

from safelight.infra.queue.jobs import Done, Job, JobId, Verdict
from safelight.library.project import Deliver
from safelight.objects.events import OURS, Action, ObjectEvent
from safelight.objects.jobs import DELIVER, DeliverPayload

MANY = 1500


def told(number: int) -> ObjectEvent:
    return ObjectEvent(
        number, OURS, Action.CREATED, "acme/a.jpg", "acme", number, None, None, None, None
    )


async def test_deliveries_that_others_take_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest are forgotten, and read back should they come here after all."""
    read_back: list[int] = []

    async def read(_: Any, event_id: int) -> ObjectEvent:
        read_back.append(event_id)
        return told(event_id)

    async def react(event: ObjectEvent, job: Job[DeliverPayload]) -> Verdict:
        assert event == told(job.payload.eventId)
        return Done()

    monkeypatch.setattr("safelight.library.project.objects.event", read)
    deliver = Deliver(None, {Action.CREATED: [react]})  # type: ignore[arg-type]  # nobody asks it
    for number in range(MANY):
        deliver.remember(told(number))
    assert len(deliver._fresh) < MANY
    for number in (MANY - 1, MANY - 2, 0):
        payload = DELIVER.dump(DeliverPayload(number, "a.jpg"))
        job = Job(JobId(number), DELIVER, "acme", payload, 1, 1)
        assert await deliver.handle(job) == Done()
    assert read_back == [0]
