"""Delivers an event to those who react to it: at least once, each event with its own verdict."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from safelight.infra.clock import Clock
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.jobs import Done, Job, Verdict
from safelight.objects import repo
from safelight.objects.events import Action, ObjectEvent


@dataclass(frozen=True, slots=True)
class Delivery:
    """The payload of `objects.deliver`."""

    eventId: int  # noqa: N815 - payloads are JSON that people read
    name: str


# The last reaction may end the job in its own statement (`Done(already=True)`); it then marks the
# event as delivered there too.
Reaction = Callable[[ObjectEvent, Job[Delivery]], Awaitable[Verdict]]
Reactions = Mapping[Action, Sequence[Reaction]]


class Deliver:
    def __init__(self, db: Database, clock: Clock, reactions: Reactions) -> None:
        self._db = db
        self._clock = clock
        self._reactions = reactions

    async def handle(self, job: Job[Delivery]) -> Verdict:
        event = await repo.event(self._db, job.payload.eventId)
        if event is None:
            return Done()
        for react in self._reactions[event.action]:
            verdict = await react(event, job)
            if verdict != Done():
                return verdict
        await reach("objects.delivered")
        mine = await repo.delivered(self._db, event.id, self._clock.now_ms(), job.id, job.claim)
        return job.ended(mine)
