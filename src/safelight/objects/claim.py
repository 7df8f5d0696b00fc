"""Is this the directory of the built-in store? Asked at start, before a file is written or removed.

A database has one. It is known by its own id, which the directory carries and the database
remembers; one from before that is taken over if its files and the database's rows belong together.
"""

import asyncio
from itertools import islice
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra import identity
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.objects import repo
from safelight.objects.local import blobs_in, unusable

_SAMPLE = 1000


async def claim_blobs(db: Database, root: Path, ids: Ids) -> None:
    ours = await identity.identity_of(db)
    home = await identity.established(db)
    deed = await asyncio.to_thread(identity.deed_in, root)
    if deed is None:
        if home is not None:
            raise ConfigurationError(_elsewhere(root, home, ours))
        await _ensure_related(db, root)
    try:
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
