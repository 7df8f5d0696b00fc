"""Any S3-compatible bucket. It is the truth; the database keeps each key's clock and events.

A write to a bucket and a transaction cannot be one. So a ticket is committed first; then, with the
key's lock held by an open transaction, the bucket is written and the transaction (index, event,
the ticket's end) committed. A ticket that is left over is reconciled with what the bucket then
holds (reconcile.py): the event comes late, never not at all. A bucket that tells of its own events
has neither tickets nor index.

Gap: should the database drop the transaction while bytes travel, another writer of the key may come
between; then the last to reach the bucket wins, and reconciling tells of that.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket

from safelight.errors import ConfigurationError
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.files import CHUNK, ByteSource, Measured, OnDisk, Spool, measure
from safelight.infra.injected import Clock, Ids
from safelight.objects import repo
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
    StoreUnavailable,
    Written,
)

if TYPE_CHECKING:
    from obstore import GetOptions

T = TypeVar("T")
_CONTENT_TYPE = "Content-Type"
_PART = 8 * 1024 * 1024
_WRITES = 4  # each holds a database connection while bytes travel


_PARAMETERS = {
    "endpoint", "region", "events", "access_key_id", "secret_access_key", "session_token",
}  # fmt: skip
_CONNECT = timedelta(seconds=5)
_REQUEST = timedelta(minutes=5)
_RETRY = timedelta(seconds=20)  # beyond this the queue tries again, and says so


@dataclass(frozen=True, slots=True)
class S3Url:
    bucket: str
    options: dict[str, str]
    telling: bool  # the bucket's own notifications are the source of events

    def open(self) -> Bucket:
        """What the address does not say, AWS_* variables may."""
        options: dict[str, Any] = dict(self.options)
        plain = options.get("endpoint", "").startswith("http://")
        return Bucket(
            self.bucket,
            virtual_hosted_style_request=False,
            client_options={"allow_http": plain, "connect_timeout": _CONNECT, "timeout": _REQUEST},
            retry_config={"max_retries": 3, "retry_timeout": _RETRY},
            **options,
        )


def parse_url(url: str) -> S3Url:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    events = options.pop("events", "own")
    unknown = options.keys() - _PARAMETERS
    if parts.scheme != "s3" or not parts.netloc or parts.path.strip("/") or unknown:
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: write s3://bucket?endpoint=…&region=…; it also takes "
            f"{', '.join(sorted(_PARAMETERS))}."
        )
    if events not in {"own", "bucket"}:
        raise ConfigurationError(
            "SAFELIGHT_OBJECT_STORE_URL: events is `own` (Safelight tells of its own writes) or "
            "`bucket` (the bucket's notifications do)."
        )
    return S3Url(parts.netloc, options, telling=events == "bucket")


class S3Store:
    def __init__(
        self, db: Database, bucket: Bucket, clock: Clock, ids: Ids, spool: Path, *, telling: bool
    ) -> None:
        self._db = db
        self._bucket = bucket
        self._clock = clock
        self._place = Place.TELLING_BUCKET if telling else Place.BUCKET
        spool.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._spool = Spool(spool, ids)
        self._writes = asyncio.Semaphore(_WRITES)

    async def close(self) -> None:
        self._spool.close()

    async def check(self) -> None:
        await self.list(limit=1)

    # Writing

    async def put(self, key: str, source: ByteSource, facts: Facts) -> Written:
        async def write(connection: Connection, landed: Landed) -> Written:
            return await repo.put(connection, key, landed, facts, self._clock.now_ms())

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
        async with self._spool.on_disk(source) as file:
            what = await self._measured(file, facts.sha256)
            async with self._writing(Action.CREATED, key) as connection:
                answer = await beaten(connection) if beaten else None
                if answer is not None:
                    return answer
                await reach("objects.bucket_put")
                etag = await self._upload(key, file.path, facts)
                landed = Landed(self._place, etag, what.size, what.sha256)
                await reach("objects.record_bucket_put")
                return await write(connection, landed)

    async def delete(self, key: str) -> Written:
        async def write(connection: Connection, place: Place) -> Written:
            return await repo.delete(connection, key, place, self._clock.now_ms())

        return await self.delete_with(key, write)

    async def delete_with(self, key: str, write: DeleteWrite[R]) -> R:
        owner_of(key)
        async with self._writing(Action.DELETED, key) as connection:
            await reach("objects.bucket_delete")
            await _asked(obstore.delete_async(self._bucket, key))
            await reach("objects.record_bucket_delete")
            return await write(connection, self._place)

    @asynccontextmanager
    async def _writing(self, action: Action, key: str) -> AsyncIterator[Connection]:
        """A transaction under the key's lock that redeems a ticket committed before it."""
        async with self._writes:
            if self._place is Place.TELLING_BUCKET:
                async with self._db.transaction() as connection:
                    await repo.lock_key(connection, key)
                    yield connection
                return
            ticket = await repo.issue_ticket(self._db, action, key, self._clock.now_ms())
            async with self._db.transaction() as connection:
                await repo.lock_key(connection, key)
                if not await repo.redeem(connection, ticket):
                    raise StoreUnavailable("The write waited too long for its turn. Try again.")
                yield connection

    async def _measured(self, file: OnDisk, expected: str | None) -> Measured:
        what = file.measured
        if what is None:
            what = await self._spool.run(measure, file.path)
        what.expect(expected)
        return what

    async def _upload(self, key: str, path: Path, facts: Facts) -> str:
        attributes = {name: to_metadata(value) for name, value in facts.metadata.items()}
        result = await _asked(
            obstore.put_async(
                self._bucket,
                key,
                path,
                attributes={**attributes, _CONTENT_TYPE: facts.content_type},
                chunk_size=_PART,
                max_concurrency=2,
            ),
            "The bucket does not exist, or these credentials may not see it.",
        )
        return _etag(result["e_tag"])

    # Reading

    async def head(self, key: str) -> ObjectInfo:
        found = await self._ask(key, {"head": True})
        return _info(key, found)

    async def get(self, key: str, start: int = 0, stop: int | None = None) -> Content:
        found = await self._ask(key, {}) if (start, stop) == (0, None) else None
        if found is None:
            first, end = within((await self.head(key)).size, start, stop)
            found = await self._ask(key, {"range": (first, end)} if end else {})
        first, end = found.range
        return Content(_info(key, found), first, end, _chunks(found))

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        stream = obstore.list(
            self._bucket, prefix.rstrip("/") or None, offset=after or None, chunk_size=limit
        )
        page = await _asked(anext(aiter(stream), []))
        return [
            Listed(meta["path"], meta["size"], _etag(meta["e_tag"]), _ms(meta)) for meta in page
        ]

    async def _ask(self, key: str, options: "GetOptions") -> Any:
        return await _asked(obstore.get_async(self._bucket, key, options=options))


async def _asked(request: Awaitable[T], missing: str | None = None) -> T:
    """The bucket's answer, its errors in our words."""
    try:
        return await request
    except FileNotFoundError as error:
        raise (StoreUnavailable(missing) if missing else NoSuchObject()) from error
    except (BaseError, OSError) as error:
        reason = str(error).partition("\n")[0][:300]
        raise StoreUnavailable(f"The object store did not answer as it should: {reason}") from error


async def _chunks(found: Any) -> AsyncIterator[bytes]:
    async for chunk in found.stream(min_chunk_size=CHUNK):
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
