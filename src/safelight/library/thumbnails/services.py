"""Thumbnails, opened."""

from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import upkeep
from safelight.library.jobs import COLLECT_THUMBNAILS
from safelight.library.thumbnails.large import LargeThumbnails
from safelight.objects.store import ObjectStore
from safelight.sandbox.sandbox import Sandbox


def open_thumbnails(base: Base, store: ObjectStore, sandbox: Sandbox) -> Feature:
    drawing = base.settings.thumbnails == "on"
    large = LargeThumbnails(base.db, store, sandbox, base.clock, base.ids, drawing=drawing)
    return Feature(
        services=(large,),
        handlers=(upkeep(COLLECT_THUMBNAILS, large.collect),),
        close=large.close,
    )
