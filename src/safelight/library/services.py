"""The library's services, opened."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.base import Base
from safelight.infra.queue.jobs import JobKind
from safelight.library.deletion import UploadDeletion
from safelight.library.project import Projection
from safelight.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Library:
    """`projection` reacts to what happens to objects; routes ask for `deletion`."""

    projection: Projection
    deletion: UploadDeletion


def open_library(
    base: Base, store: ObjectStore, runs: JobKind[Any], *, telling: bool = False
) -> Library:
    """`runs` is the kind whose jobs new markers enqueue; `telling`: the store is a bucket whose own
    notifications are the events."""
    return Library(
        Projection(base.units, store, runs, telling=telling), UploadDeletion(store, base.units)
    )
