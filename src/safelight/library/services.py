"""The library's services, opened."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import upkeep
from safelight.infra.queue.jobs import JobKind
from safelight.library.arrival import Arrival, Remember, forget
from safelight.library.deletion import UploadDeletion
from safelight.library.jobs import RECONCILE, RETAIN
from safelight.library.project import Projection
from safelight.library.reconcile.compare import Sides
from safelight.library.reconcile.reconcile import LibraryReconcile
from safelight.library.retention.retention import Retention, RetentionLimits
from safelight.objects.store import BlobFiles, ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Library(Feature):
    """`projection` reacts to what happens to objects, `arrival` is the road that needs no such
    reaction; the other two are also services."""

    projection: Projection
    arrival: Arrival
    deletion: UploadDeletion
    reconcile: LibraryReconcile


def open_library(
    base: Base,
    store: ObjectStore,
    runs: JobKind[Any],
    remember: Remember = forget,
    files: BlobFiles | None = None,
    *,
    telling: bool = False,
) -> Library:
    """`runs` is the kind whose jobs new markers enqueue, `remember` spares whoever handles them to
    look for the bytes; `files` are the built-in store's; `telling`: the store is a bucket whose own
    notifications are the events."""
    deletion = UploadDeletion(store, base.units)
    reconcile = LibraryReconcile(base, store, runs, sides_of(files, telling=telling), files)
    return Library(
        services=(deletion, reconcile, RetentionLimits(base.units, telling)),
        handlers=(upkeep(RECONCILE, reconcile.run), upkeep(RETAIN, Retention(base, store).run)),
        deletion=deletion,
        reconcile=reconcile,
        projection=Projection(base.units, store, runs, telling=telling),
        arrival=Arrival(base.units, base.queue, runs, remember),
    )


def sides_of(files: BlobFiles | None, *, telling: bool) -> Sides:
    if files is not None:
        return Sides.BUILT_IN
    return Sides.TELLING if telling else Sides.OWN
