"""The library's services, opened."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.base import Base, Feature
from safelight.infra.queue.jobs import JobKind
from safelight.library.deletion import UploadDeletion
from safelight.library.project import Projection
from safelight.objects.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Library(Feature):
    """`projection` reacts to what happens to objects; `deletion` is also a service."""

    projection: Projection
    deletion: UploadDeletion


def open_library(
    base: Base, store: ObjectStore, runs: JobKind[Any], *, telling: bool = False
) -> Library:
    """`runs` is the kind whose jobs new markers enqueue; `telling`: the store is a bucket whose own
    notifications are the events."""
    deletion = UploadDeletion(store, base.units)
    return Library(
        services=(deletion,),
        deletion=deletion,
        projection=Projection(base.units, store, runs, telling=telling),
    )
