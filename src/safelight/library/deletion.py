"""Deleting a name: its object goes now, and uploads of it that were received before stay away.

The object's end, its event and the memory of what is still on its way are one transaction.
"""

from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.library import repo
from safelight.objects.jobs import DELIVER
from safelight.objects.keys import object_key
from safelight.objects.store import Cleared, ObjectStore, Written


class UploadDeletion:
    def __init__(self, store: ObjectStore, units: Units) -> None:
        self._store = store
        self._units = units

    async def request(self, organization: str, name: str, actor: dict[str, str]) -> Written:
        """Whether or not there is such an object. The event says what is true from now on; a name
        that has nothing left to end has had its own."""
        data = {"name": name, "actor": actor}
        line = Line(f"upload:{name}", "upload_delete_requested", data)

        async def write(cleared: Cleared) -> Written:
            now = self._units.clock.now_ms()
            return await repo.delete(self._units.db, organization, name, cleared, line, now)

        written = await self._store.delete_with(object_key(organization, name), write)
        self._units.announce(organization, DELIVER)
        return written
