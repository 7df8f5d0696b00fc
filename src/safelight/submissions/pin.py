"""What was submitted stays what it is: its bytes get a key of their own, `submissions/{id}`.

In the built-in store that is one more row for the same file, in a bucket a copy. Every check and
the published rendition read that key and nothing else; replacing or deleting the source changes
nothing there. The submission's own row is written in the same transaction.

Gap: with a bucket, a crash between the copy and the transaction leaves an object nobody refers to.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from safelight.errors import Conflict
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects import repo as objects
from safelight.objects.store import Facts, Landed, ObjectStore
from safelight.submissions.sources.source import Found

T = TypeVar("T")
# Given the connection of the pinning transaction and the sha256 of what was pinned.
Record = Callable[[Connection, str], Awaitable[T]]


class Replaced(Conflict):
    """The image is being replaced at this very moment. Try again."""


def pinned_key(submission_id: str) -> str:
    return f"submissions/{submission_id}"


@dataclass(frozen=True, slots=True)
class Pins:
    db: Database
    store: ObjectStore
    clock: Clock

    async def pin(self, found: Found, submission_id: str, record: Record[T]) -> T:
        """Raises `Replaced` when the object is not the one that was found any more."""
        as_key = pinned_key(submission_id)
        async with self.db.transaction() as connection:
            checksum = await objects.share(
                connection, found.key, found.etag, as_key, self.clock.now_ms()
            )
            if checksum is not None:
                return await record(connection, checksum)
        return await self._copy(found, as_key, record)

    async def _copy(self, found: Found, as_key: str, record: Record[T]) -> T:
        content = await self.store.get(found.key)
        if content.info.etag != found.etag:
            raise Replaced
        facts = Facts(found.content_type)

        async def write(connection: Connection, landed: Landed) -> T:
            async with connection.transaction():
                await objects.put(connection, as_key, landed, facts, self.clock.now_ms())
                return await record(connection, landed.sha256)

        await reach("submissions.copy")
        return await self.store.put_with(as_key, content.chunks, facts, write)
