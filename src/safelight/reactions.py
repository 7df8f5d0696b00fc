"""The table of consequences: what happens to an object, and what Safelight does about it.

Features never call each other leftwards; what follows from what is said here and nowhere else.
"""

from typing import Any

from safelight.admin import jobs as admin
from safelight.approvals import jobs as approvals
from safelight.approvals.workflow import Approvals
from safelight.classification import jobs as classification
from safelight.generations import jobs as generations
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import JobKind, Schedule
from safelight.ingest import jobs as ingest
from safelight.library.project import Projection
from safelight.objects import jobs as objects
from safelight.objects.deliver import Reactions
from safelight.objects.events import Action
from safelight.settings import Settings
from safelight.submissions import jobs as submissions
from safelight.submissions.gone import SourceGone

KINDS: tuple[JobKind[Any], ...] = (
    *ingest.KINDS,
    *objects.KINDS,
    *classification.KINDS,
    *generations.KINDS,
    *approvals.KINDS,
    *submissions.KINDS,
    *admin.KINDS,
)


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return (
        *ingest.schedules(settings),
        *objects.schedules(settings),
        *generations.schedules(settings),
        *approvals.SCHEDULES,
        *submissions.schedules(settings),
        *admin.schedules(settings),
    )


def reactions(projection: Projection, gone: SourceGone) -> Reactions:
    """In this order; the library's comes last, since it ends the delivery."""
    return {
        Action.CREATED: (projection.on_created,),
        Action.DELETED: (gone.on_upload_deleted, projection.on_deleted),
    }


def handlers(
    approve: Approvals,
) -> tuple[Handler[Any], ...]:
    return (*approvals.handlers(approve),)
