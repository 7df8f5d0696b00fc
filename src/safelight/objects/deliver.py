"""Delivers an event to those who react to it: at least once, each event with its own verdict."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from safelight.infra.activity import Units
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.objects import repo
from safelight.objects.events import Action, ObjectEvent
from safelight.objects.jobs import DeliverPayload

_REMEMBERED = 1000


# The last reaction may end the job in its own statement (`Done(already=True)`); it then marks the
# event as delivered there too.
Reaction = Callable[[ObjectEvent, Job[DeliverPayload]], Awaitable[Verdict]]
Reactions = Mapping[Action, Sequence[Reaction]]


class Deliver:
    def __init__(self, units: Units, reactions: Reactions) -> None:
        self._db = units.db
        self._units = units
        self._reactions = reactions
        self._fresh: dict[int, ObjectEvent] = {}

    def remember(self, event: ObjectEvent) -> None:
        """Spares reading back what this process has just written; events never change."""
        if len(self._fresh) < _REMEMBERED:
            self._fresh[event.id] = event

    async def handle(self, job: Job[DeliverPayload]) -> Verdict:
        event_id = job.payload.eventId
        event = self._fresh.pop(event_id, None) or await repo.event(self._db, event_id)
        if event is None:
            return Done()
        for react in self._reactions[event.action]:
            verdict = await react(event, job)
            if verdict != Done():
                return verdict
        async with self._units.open(job.organization) as unit:
            await repo.delivered(unit.connection, event.id, unit.now)
            unit.ends(job)
        return Done(already=True)
