"""The table of consequences: what happens to an object, and what Safelight does about it.

Features never call each other leftwards; what follows from what is said here and nowhere else.
"""

from typing import Any

from safelight.admin import jobs as admin
from safelight.approvals import jobs as approvals
from safelight.classification import jobs as classification
from safelight.generations import kinds as generations
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import JobKind, Schedule
from safelight.ingest import jobs as ingest
from safelight.ingest.offload import Offload
from safelight.ingest.sweep import Sweep
from safelight.library.project import Projection
from safelight.objects import jobs as objects
from safelight.objects.deliver import Deliver, Reactions
from safelight.objects.events import Action
from safelight.objects.notifications.intake import REJECTED, Intake
from safelight.objects.registry import Opened
from safelight.settings import Settings
from safelight.submissions import jobs as submissions
from safelight.submissions.endings import DeletedSources

KINDS: tuple[JobKind[Any], ...] = (
    *ingest.KINDS,
    *objects.KINDS,
    REJECTED,
    *classification.KINDS,
    *generations.KINDS,
    *approvals.KINDS,
    *submissions.KINDS,
    *admin.KINDS,
)


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return (
        *ingest.SCHEDULES,
        *objects.SCHEDULES,
        *generations.SCHEDULES,
        *approvals.schedules(settings),
        *submissions.schedules(settings),
        *admin.schedules(settings),
    )


def reactions(projection: Projection, sources: DeletedSources) -> Reactions:
    """In this order; the library's comes last, since it ends the delivery."""
    return {
        Action.CREATED: (projection.on_created,),
        Action.DELETED: (sources.on_upload_deleted, projection.on_deleted),
    }


def handlers(
    offload: Offload,
    sweep: Sweep,
    deliver: Deliver,
    opened: Opened,
    intake: Intake,
) -> tuple[Handler[Any], ...]:
    return (
        *ingest.handlers(offload, sweep),
        *objects.handlers(deliver, opened.upkeep),
        Handler(REJECTED, intake.handle_rejected),
    )
