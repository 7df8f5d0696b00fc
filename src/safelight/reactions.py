"""The table of consequences: what happens to an object, and what Safelight does about it.

Features never call each other leftwards; what follows from what is said here and nowhere else.
"""

from safelight.library.project import Projection, Reactions
from safelight.objects.events import Action
from safelight.submissions.endings import DeletedSources


def reactions(projection: Projection, sources: DeletedSources) -> Reactions:
    """In this order; the library's comes last, since it ends the delivery."""
    return {
        Action.CREATED: (projection.on_created,),
        Action.DELETED: (sources.on_upload_deleted, projection.on_deleted),
    }
