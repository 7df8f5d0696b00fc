"""Which sources there are: one line each."""

from collections.abc import Mapping

from safelight.infra.db import Database
from safelight.objects.store import ObjectStore
from safelight.submissions.sources.artifact import ArtifactSource
from safelight.submissions.sources.source import Source
from safelight.submissions.sources.upload import UploadSource

Sources = Mapping[str, Source]


def sources(db: Database, store: ObjectStore) -> Sources:
    known: tuple[Source, ...] = (
        UploadSource(db, store),
        ArtifactSource(db, store),
    )
    return {source.kind: source for source in known}
