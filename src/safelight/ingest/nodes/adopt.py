"""Takes over the uploads in a directory that came from another machine: its files are copied into
the ingest directory here, and their jobs follow.

Guarantees
- A file is whole, on disk and what its record says before a job is about it here; until then its
  job is where it was. Killed anywhere, it is done again, and what was taken stays taken.
- The directory itself is not changed: remove it when nothing waits for its node any more.
- Refused: a directory of another database, one that somebody uses, one whose machine is alive.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra.failpoints import hit
from safelight.infra.files import ChecksumMismatch, Measured, copy
from safelight.infra.identity import deed_in, identity_of, where_is
from safelight.infra.injected import ImageId
from safelight.infra.lost_found import LostFound
from safelight.infra.queue.queue import Queue
from safelight.ingest.directory import IngestDirectory, files_in, node_in, unusable
from safelight.ingest.jobs import OFFLOAD, PUT_BACK
from safelight.ingest.lifecycle import Image
from safelight.ingest.nodes import repo
from safelight.ingest.nodes.give_up import NodeAlive
from safelight.ingest.nodes.lifecycle import NodeStanding
from safelight.ingest.nodes.revive import revive

_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Adopted:
    """What came of it: how many uploads were taken over, which files are not what was received,
    and how many uploads still wait for the node they came from, if that is known."""

    node: str | None
    taken: int
    damaged: list[Path]
    left: int


class Adoption:
    """`into` is the ingest directory here, whose lock the caller shares."""

    def __init__(self, queue: Queue, into: IngestDirectory) -> None:
        self._queue = queue
        self._db = queue.db
        self._into = into

    async def adopt(self, source: Path, node: str | None = None) -> Adopted:
        """`node` says whose the directory is, where the directory itself does not."""
        await self._check_deed(source, node)
        taken, damaged = 0, []
        with _alone(source):
            node = node or await asyncio.to_thread(node_in, source)
            await self._check_node(node)
            files = await asyncio.to_thread(_found, source)
            names = list(files)
            for start in range(0, len(names), _AT_ONCE):
                wanted = await repo.with_file(self._db, names[start : start + _AT_ONCE])
                bad = await asyncio.to_thread(self._copy, wanted, files)
                await self._readdress([image.id for image in wanted if files[image.id] not in bad])
                taken += len(wanted) - len(bad)
                damaged += bad
        if node is not None:
            await repo.forget(self._db, node)
        return Adopted(node, taken, damaged, await self._left(node))

    async def _check_deed(self, source: Path, node: str | None) -> None:
        if not source.is_dir():
            raise ConfigurationError(f"There is no directory {source}.")
        if source.resolve() == self._into.path.resolve():
            raise ConfigurationError(
                f"{source} is the ingest directory here: whoever starts on it has taken it over."
            )
        deed, identity = deed_in(source), await identity_of(self._db)
        if deed is None and node is None:
            raise ConfigurationError(
                f"{source} does not say which database it belongs to. Was it copied without its "
                "hidden files? If you know whose it is, add --node ID (`safelight nodes list`)."
            )
        if deed is not None and deed.database != identity:
            raise ConfigurationError(
                f"{source} belongs to another database: to {deed.database}"
                f"{f', {deed.where}' if deed.where else ''}. The one at {where_is(self._db.url)} "
                f"is {identity}. Nothing was taken over."
            )

    async def _check_node(self, node: str | None) -> None:
        for known in await repo.nodes(self._db):
            if known.id == node and known.standing is NodeStanding.ALIVE:
                raise NodeAlive

    def _copy(self, wanted: list[Image], files: Mapping[ImageId, Path]) -> list[Path]:
        """Answers the files that are not what was received. All others are on disk here."""
        damaged = []
        try:
            for image in wanted:
                try:
                    self._copy_one(image, files[image.id])
                except ChecksumMismatch:
                    damaged.append(files[image.id])
            hit("ingest.adopt_sync")
            self._into.sync_together()
        except OSError as error:
            raise unusable(self._into.path, error) from error
        return damaged

    def _copy_one(self, image: Image, source: Path) -> None:
        target = self._into.path / source.name
        if target.exists():
            return  # under this name it is whole
        draft = self._into.path / f".{image.id}.part"
        hit("ingest.adopt_clear")
        draft.unlink(missing_ok=True)
        copy(source, draft, Measured(image.checksum, image.size_bytes))
        hit("ingest.adopt_rename")
        draft.rename(target)

    async def _readdress(self, images: list[ImageId]) -> None:
        for kind in (OFFLOAD, PUT_BACK):
            await self._queue.adopt(kind, images)
        await revive(self._queue.units, images, self._into.node)

    async def _left(self, node: str | None) -> int:
        return sum(known.uploads for known in await repo.nodes(self._db) if known.id == node)


def _found(source: Path) -> dict[ImageId, Path]:
    """Every whole file, also of those that were set aside."""
    there = [source, LostFound(source).path]
    files = [file for path in there if path.is_dir() for file in files_in(path)]
    return {file.image_id: file.path for file in files if not file.partial}


@contextmanager
def _alone(source: Path) -> Iterator[None]:
    """Nobody uses the directory meanwhile. One that was copied without its lock has no users."""
    try:
        lock = os.open(source / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigurationError(
            f"A server or worker is using {source}. Stop it first, or let it go on: it stores what "
            "waits there."
        ) from None
    finally:
        os.close(lock)
