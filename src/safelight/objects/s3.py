"""Any S3-compatible bucket. It is the truth; the database keeps each key's clock and events.

A write to a bucket and a transaction cannot be one, and none may be open while bytes travel. So a
ticket is committed first; then the bucket is written; then one short transaction decides under
the key's lock what that was worth, records it and ends the ticket. A write whose end is not
known (no answer, an error, a death, a record that was refused) leaves its ticket open; so does one
that others overlapped. When no request of it can be applied any more, it is settled (reconcile.py):
the event comes late, never not at all, and what was beaten does not stay. Writes are sent once:
what the client repeated by itself could be applied after its ticket has ended.

That something is not there is believed only of the database's own bucket, which carries its mark
(claim.py): a bucket's name may be misspelt, and a proxy says 404 too.

Gap: a bucket that applies a request more than `PATIENCE` after it was begun, and a process that is
stopped so long in the middle of one and dies right after it has gone on.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import obstore
from obstore.store import S3Store as Bucket

from safelight.errors import ConfigurationError, Overwritten, RangeNotSatisfiable
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.files import CHUNK, ByteSource, Measured, OnDisk, Spool, measure
from safelight.infra.injected import Clock, Ids
from safelight.infra.turns import Turns
from safelight.objects import repo
from safelight.objects.bucket import asked, limited
from safelight.objects.claim import claim_bucket
from safelight.objects.events import Action
from safelight.objects.keys import (
    METADATA_NAMES,
    InvalidName,
    from_metadata,
    owner_of,
    to_metadata,
    within,
)
from safelight.objects.store import (
    Beaten,
    Cleared,
    Content,
    DeleteWrite,
    Facts,
    Landed,
    Listed,
    NoSuchObject,
    ObjectInfo,
    Place,
    PutWrite,
    R,
    Still,
    StoreUnavailable,
    Unsettled,
    Written,
)

if TYPE_CHECKING:
    from obstore import GetOptions

_CONTENT_TYPE = "Content-Type"
_STORAGE_CLASS = "Storage-Class"
_PART = 8 * 1024 * 1024
_WRITES = 8
_LOOKS = 3
# Where a bucket says whose it is.
MARK_KEY = "system/identity"
_NO_BUCKET = "The bucket does not exist, or these credentials may not see it."


_PUT_SECONDS = 300.0
_DELETE_SECONDS = 5.0  # a person waits
_ANSWER_SECONDS = 30.0
_CHECK_SECONDS = 5.0
_TURN_SECONDS = 2.0
# After a put has been given up, what the bucket has of it may still be applied, but not for long.
PATIENCE = timedelta(minutes=10)


class S3Store:
    """`writing` is the same bucket, where nothing is sent twice; `where` it is, for people."""

    def __init__(
        self,
        db: Database,
        bucket: Bucket,
        writing: Bucket,
        clock: Clock,
        ids: Ids,
        spool: Path,
        *,
        telling: bool,
        where: str,
        storage_class: str | None = None,
    ) -> None:
        self._db = db
        self._bucket = bucket
        self._writing = writing
        self._clock = clock
        self._place = Place.TELLING_BUCKET if telling else Place.BUCKET
        spool.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._spool = Spool(spool, ids)
        self._writes = Turns(_WRITES)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._where = where
        self._kept_as = {_STORAGE_CLASS: storage_class} if storage_class else {}
        self._ours: str | None = None
        self._claiming: asyncio.Task[str] | None = None

    @property
    def telling(self) -> bool:
        return self._place is Place.TELLING_BUCKET

    async def close(self) -> None:
        self._spool.close()

    async def check(self) -> None:
        """The mark is the smallest of questions, and that it is not there is news."""
        async with limited(_CHECK_SECONDS):
            await self._ensure_ours()

    # Whose it is

    async def ready(self) -> None:
        """Refuses a bucket that is not the database's, in words for whoever starts us."""
        if self._ours is None:
            if self._claiming is None or self._claiming.done():
                self._claiming = asyncio.create_task(claim_bucket(self._db, self, self._where))
            # Those who come meanwhile share its end, and wait for no bucket one after the other.
            self._ours = await asyncio.shield(self._claiming)

    async def _ready(self) -> None:
        """Before anything is written or believed: the bucket may have been away at the start."""
        if self._ours is not None:
            return
        try:
            await self.ready()
        except ConfigurationError as error:
            raise StoreUnavailable.because(error.message) from error

    async def mark(self) -> str | None:
        """Whose the bucket says it is."""
        try:
            async with limited(_ANSWER_SECONDS):
                found = await asked(obstore.get_async(self._bucket, MARK_KEY))
                return bytes(await asked(found.bytes_async())).decode(errors="replace")
        except FileNotFoundError:
            return None

    async def leave_mark(self, identity: str) -> None:
        async with limited(_ANSWER_SECONDS):
            await reach("objects.leave_mark")
            await asked(obstore.put_async(self._writing, MARK_KEY, identity.encode()), _NO_BUCKET)

    async def holds(self, key: str) -> bool:
        """Whatever the bucket is."""
        try:
            async with limited(_ANSWER_SECONDS):
                await asked(obstore.head_async(self._bucket, key))
        except FileNotFoundError:
            return False
        return True

    async def _ensure_ours(self) -> None:
        """Asked whenever something is not there."""
        await self._ready()
        if await self.mark() != self._ours:
            raise StoreUnavailable(
                "The bucket is not the one this database has its images in, or it does not exist, "
                "or these credentials may not see it."
            )

    # Writing

    async def put(self, key: str, source: ByteSource, facts: Facts) -> Written:
        async def write(landed: Landed) -> Written:
            return await repo.put(self._db, key, landed, facts, self._clock.now_ms())

        return await self.put_with(key, source, facts, write)

    async def put_with(
        self,
        key: str,
        source: ByteSource,
        facts: Facts,
        write: PutWrite[R],
        beaten: Beaten[R] | None = None,
    ) -> R:
        owner_of(key)
        await self._ready()
        async with self._spool.on_disk(source) as file:
            what = await self._measured(file, facts.sha256)
            async with self._turn(key), self._writes.turn():
                answer = await beaten() if beaten else None
                if answer is not None:
                    return answer
                ticket = await self._ticket(Action.CREATED, key)
                await reach("objects.bucket_put")
                etag = await self._upload(key, file.path, facts)
                landed = Landed(self._place, etag, what.size, what.sha256, ticket=ticket)
                await reach("objects.record_bucket_put")
                return await write(landed)

    async def delete(self, key: str) -> Written:
        async def write(cleared: Cleared) -> Written:
            return await repo.delete(self._db, key, cleared, self._clock.now_ms())

        return await self.delete_with(key, write)

    async def delete_with(self, key: str, write: DeleteWrite[R]) -> R:
        owner_of(key)
        await self._ready()
        async with self._turn(key, _TURN_SECONDS):
            ticket = await self._ticket(Action.DELETED, key)
            await reach("objects.bucket_delete")
            await self._delete_bytes(key)
            await reach("objects.record_bucket_delete")
            return await write(Cleared(self._place, ticket))

    async def delete_if(self, key: str, still: Still, write: DeleteWrite[bool]) -> bool:
        """Whoever writes after `still` was asked sees this ticket, so that both are settled: his
        bytes are put back if this has hit them."""
        owner_of(key)
        await self._ready()
        async with self._turn(key, _TURN_SECONDS):
            ticket = await self._ticket(Action.DELETED, key)
            if not await still(ticket):
                await repo.redeem(self._db, [ticket])
                return False
            await reach("objects.bucket_delete_aged")
            await self._delete_bytes(key)
            await reach("objects.record_bucket_delete_aged")
            return await write(Cleared(self._place, ticket))

    async def erase(self, seen: Unsettled) -> None:
        """For reconcile.py. The ticket says as of when: whatever was recorded since is no part of
        what this delete was decided about."""
        key = seen.key
        async with self._turn(key, _TURN_SECONDS):
            ticket = await self._ticket(Action.DELETED, key, as_of=seen)
            await reach("objects.erase")
            await self._delete_bytes(key)
            await repo.mended(self._db, Action.DELETED, key, None, "", ticket)

    async def _ticket(self, action: Action, key: str, as_of: Unsettled | None = None) -> int:
        now = self._clock.now_ms()
        return await repo.issue_ticket(self._db, action, key, now, PATIENCE, as_of)

    @asynccontextmanager
    async def _turn(self, key: str, seconds: float | None = None) -> AsyncIterator[None]:
        """Two writes of a key that overlap have to be settled, so within a process they do not; but
        nobody waits longer for that than it is worth."""
        lock, mine = self._turns.setdefault(key, asyncio.Lock()), False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                mine = await lock.acquire()
        try:
            yield
        finally:
            if mine:
                lock.release()

    async def _measured(self, file: OnDisk, expected: str | None) -> Measured:
        what = file.measured
        if what is None:
            what = await self._spool.run(measure, file.path)
        what.expect(expected)
        return what

    async def _upload(self, key: str, path: Path, facts: Facts) -> str:
        attributes = {name: to_metadata(value) for name, value in facts.metadata.items()}
        async with limited(_PUT_SECONDS):
            result = await asked(
                obstore.put_async(
                    self._writing,
                    key,
                    path,
                    attributes={**attributes, **self._kept_as, _CONTENT_TYPE: facts.content_type},
                    chunk_size=_PART,
                    max_concurrency=2,
                ),
                _NO_BUCKET,
            )
        return _etag(result["e_tag"])

    async def _delete_bytes(self, key: str) -> None:
        """Some buckets say that there was nothing."""
        try:
            async with limited(_DELETE_SECONDS):
                await asked(obstore.delete_async(self._writing, key))
        except FileNotFoundError:
            await self._ensure_ours()

    # Reading

    async def head(self, key: str) -> ObjectInfo:
        found = await self._ask(key, {"head": True})
        return _info(key, found)

    async def get(
        self, key: str, start: int = 0, stop: int | None = None, etag: str | None = None
    ) -> Content:
        """One request, whose answer says what it is of; another only if there may be no byte."""
        options: GetOptions = {"if_match": f'"{etag}"'} if etag else {}
        if (start, stop) != (0, None):
            options["range"] = {"offset": start} if stop is None else (start, stop)
        for _ in range(_LOOKS):
            if start >= 0 and (stop is None or start < stop):
                with suppress(RangeNotSatisfiable):
                    return _content(key, await self._ask(key, options))
            info = await self.head(key)
            if within(info.size, start, stop) == (0, 0):
                return Content(info, 0, 0, _nothing())
        raise Overwritten

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        # obstore drops a slash at the end, and after a folder's own name SeaweedFS goes on behind
        # all that is in it. No name is a space.
        offset = f"{after} " if after.endswith("/") else after or None
        stream = obstore.list(
            self._bucket, prefix.rstrip("/") or None, offset=offset, chunk_size=limit
        )
        async with limited(_ANSWER_SECONDS):
            page = await asked(anext(aiter(stream), []), _NO_BUCKET)
        found = [
            Listed(meta["path"], meta["size"], _etag(meta["e_tag"]), _ms(meta)) for meta in page
        ]
        shown = [listed for listed in found if listed.key != MARK_KEY]
        return shown if shown or not found else await self.list(prefix, found[-1].key, limit)

    async def _ask(self, key: str, options: "GetOptions") -> Any:
        try:
            async with limited(_ANSWER_SECONDS):
                return await asked(obstore.get_async(self._bucket, key, options=options))
        except FileNotFoundError as error:
            await self._ensure_ours()
            raise NoSuchObject from error


def _content(key: str, found: Any) -> Content:
    first, end = found.range
    return Content(_info(key, found), first, end, _chunks(found))


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


async def _chunks(found: Any) -> AsyncIterator[bytes]:
    stream = aiter(found.stream(min_chunk_size=CHUNK))
    while (chunk := await asked(anext(stream, None))) is not None:
        yield bytes(chunk)


def _info(key: str, found: Any) -> ObjectInfo:
    attributes: dict[str, str] = dict(found.attributes)
    content_type = attributes.pop(_CONTENT_TYPE, "application/octet-stream")
    metadata = {
        METADATA_NAMES.get(name, name): _decoded(value) for name, value in attributes.items()
    }
    meta = found.meta
    return ObjectInfo(key, meta["size"], content_type, metadata, _etag(meta["e_tag"]), _ms(meta))


def _decoded(value: str) -> str:
    """Other tools' metadata need not be percent-encoded."""
    try:
        return from_metadata(value)
    except InvalidName:
        return value


def _etag(quoted: str | None) -> str:
    return (quoted or "").strip('"')


def _ms(meta: Mapping[str, Any]) -> int:
    return int(meta["last_modified"].timestamp() * 1000)
