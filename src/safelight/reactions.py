"""The table of consequences: what happens to an object, and what Safelight does about it.

Features never call each other leftwards; what follows from what is said here and nowhere else.
"""

from typing import Any

from safelight.classification import jobs as classification
from safelight.classification.run import Classification
from safelight.infra.jobs import Handler, JobKind, Schedule
from safelight.ingest import jobs as ingest
from safelight.ingest.offload import Offload
from safelight.ingest.sweep import Sweep
from safelight.library.project import Projection
from safelight.objects import jobs as objects
from safelight.objects.deliver import Deliver, Reactions
from safelight.objects.events import Action
from safelight.objects.notifications.intake import REJECTED, Intake
from safelight.objects.registry import Opened

KINDS: tuple[JobKind[Any], ...] = (
    *ingest.KINDS,
    *objects.KINDS,
    REJECTED,
    *classification.KINDS,
)
SCHEDULES: tuple[Schedule, ...] = (*ingest.SCHEDULES, *objects.SCHEDULES)


def reactions(projection: Projection) -> Reactions:
    return {
        Action.CREATED: (projection.on_created,),
        Action.DELETED: (projection.on_deleted,),
    }


def handlers(
    offload: Offload,
    sweep: Sweep,
    deliver: Deliver,
    opened: Opened,
    intake: Intake,
    classify: Classification,
) -> tuple[Handler[Any], ...]:
    return (
        *ingest.handlers(offload, sweep),
        *objects.handlers(deliver, opened.upkeep),
        Handler(REJECTED, intake.handle_rejected),
        *classification.handlers(classify),
    )
