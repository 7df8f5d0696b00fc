"""Is this the directory of the built-in store, or the bucket? Asked before anything is written to
it or removed.

A database has one. The directory is known by its own id, which it carries and the database
remembers; the bucket carries the database's. One from before that is taken over if what it holds
and the database's rows belong together.
"""

import asyncio
from itertools import islice
from pathlib import Path
from typing import Protocol

from safelight.errors import ConfigurationError
from safelight.infra import identity
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.objects import repo
from safelight.objects.blobs import unusable
from safelight.objects.shelves import begin, blobs_in

_SAMPLE = 1000
_FEW = 3


async def claim_blobs(db: Database, root: Path, ids: Ids) -> None:
    ours = await identity.identity_of(db)
    home = await identity.established(db)
    deed = await asyncio.to_thread(identity.deed_in, root)
    if deed is None:
        if home is not None:
            raise ConfigurationError(_elsewhere(root, home, ours))
        await _ensure_related(db, root)
    try:
        await asyncio.to_thread(begin, root, ids)  # while it is nobody's yet
        deed = await asyncio.to_thread(
            identity.claim, root, ours, ids, what="The blob directory", database=db.url
        )
    except OSError as error:
        raise unusable(root, error) from error
    if not await identity.establish(db, deed.place, identity.here(root)):
        home = await identity.established(db) or ("", "")
        raise ConfigurationError(_elsewhere(root, home, ours))


async def _ensure_related(db: Database, root: Path) -> None:
    """A directory and a database from before either knew of the other."""
    found = await asyncio.to_thread(lambda: list(islice(blobs_in(root), _SAMPLE)))
    if found and not await repo.known(db, found):
        raise ConfigurationError(
            f"The blob directory {root} holds images, and the database at "
            f"{identity.where_is(db.url)} knows none of them: they are another database's. Start "
            "the server with that database, or with another --data-dir."
        )
    if not found and await repo.blobs_after(db, "", 1):
        raise ConfigurationError(
            f"The blob directory {root} is empty, and the database has images in it. Is its volume "
            "mounted? Start again when it is, or restore the directory from a backup."
        )


def _elsewhere(root: Path, home: tuple[str, str], ours: str) -> str:
    place, at = home
    return (
        f"{root} is not where this database's images are: that is {at}. If its volume is not "
        "mounted, mount it and start again. If this is a second machine, its disk cannot hold "
        "what the first one's holds: share that directory, or keep images in a bucket "
        "(SAFELIGHT_OBJECT_STORE_URL=s3://…). If the directory was restored or moved here without "
        f"its hidden file, write that again: echo {ours} {place} > {root / identity.DEED}"
    )


class MarkedBucket(Protocol):
    async def mark(self) -> str | None:
        """Whose the bucket says it is."""

    async def leave_mark(self, identity: str) -> None: ...

    async def holds(self, key: str) -> bool: ...


async def claim_bucket(db: Database, bucket: MarkedBucket, where: str) -> str:
    """The mark that the database's bucket carries."""
    ours, known = await identity.identity_of(db), await identity.established_bucket(db)
    mark = await bucket.mark()
    if mark is None:
        await _ensure_bucket_related(db, bucket, where, known)
        await bucket.leave_mark(ours)
    elif mark != ours:
        raise ConfigurationError(
            f"The bucket {where} belongs to another database: to {mark}. The one at "
            f"{identity.where_is(db.url)} is {ours}. Give SAFELIGHT_OBJECT_STORE_URL a bucket of "
            "its own, or start with the bucket's own database; nothing was changed."
        )
    await identity.establish_bucket(db, where)
    return ours


async def _ensure_bucket_related(
    db: Database, bucket: MarkedBucket, where: str, known: str | None
) -> None:
    some = await repo.in_bucket(db, _FEW)
    if known is None and (not some or any([await bucket.holds(key) for key in some])):
        return
    home = f"are in the bucket {known}" if known else "are in another bucket"
    raise ConfigurationError(
        f"The bucket {where} is not this database's: it lacks the object system/identity, and the "
        f"database's images {home}. Is SAFELIGHT_OBJECT_STORE_URL misspelt? If the bucket was "
        "moved or restored without that object, put it back: its content is "
        f"{await identity.identity_of(db)}, without a line break."
    )
