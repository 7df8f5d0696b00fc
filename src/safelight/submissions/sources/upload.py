"""An image of the library, by its name."""

from dataclasses import dataclass

from safelight.errors import NotReady
from safelight.infra.db import Database
from safelight.objects.keys import InvalidKey, InvalidName, object_key
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.submissions.sources import repo
from safelight.submissions.sources.source import Found, UnknownSource, picture_only


@dataclass(frozen=True, slots=True)
class UploadSource:
    db: Database
    store: ObjectStore
    kind: str = "upload"

    async def find(self, organization: str, source_id: str) -> Found:
        try:
            key = object_key(organization, source_id)
            info = await self.store.head(key)
        except (InvalidName, InvalidKey) as error:
            raise UnknownSource from error
        except NoSuchObject as error:
            if await repo.upload_under_way(self.db, organization, source_id):
                raise NotReady("This image is still being stored; try again soon.") from error
            raise UnknownSource(f"There is no image called {source_id}.") from error
        picture_only(info.content_type)
        marker = info.metadata.get("idempotencyKey") or f"etag:{info.etag}"
        return Found(key, info.etag, marker, info.event_time, info.content_type, info.size)
