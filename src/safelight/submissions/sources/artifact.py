"""Something that was generated, by its id."""

from dataclasses import dataclass

from safelight.errors import NotReady
from safelight.generations.artifacts import repo as artifacts
from safelight.infra.db import Database
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.submissions.sources import repo
from safelight.submissions.sources.source import Found, UnknownSource, picture_only


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    db: Database
    store: ObjectStore
    kind: str = "artifact"

    async def find(self, organization: str, source_id: str) -> Found:
        artifact = await artifacts.find(self.db, source_id)
        if artifact is None or artifact.organization != organization:
            if await repo.artifact_under_way(self.db, organization, source_id):
                raise NotReady("This artifact is still being made; try again soon.")
            raise UnknownSource("There is no such artifact.")
        picture_only(artifact.content_type)
        key = f"artifacts/{source_id}"
        try:
            info = await self.store.head(key)
        except NoSuchObject as error:
            raise UnknownSource("There is no such artifact.") from error
        return Found(key, info.etag, source_id, info.event_time, artifact.content_type, info.size)
