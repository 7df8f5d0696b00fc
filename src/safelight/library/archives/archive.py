"""A zip of originals, written while it is read: no file, and no more of it in memory than a piece.

Python's own zipfile writes to what cannot seek: sizes and sums follow the bytes, and where a figure
needs 64 bits it takes them. Pictures are compressed already, so they are stored as they are.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import IO, Final, cast
from zipfile import ZipFile, ZipInfo

from safelight.errors import NotFound
from safelight.library.archives.names import ArchiveNames
from safelight.objects.keys import object_key
from safelight.objects.store import Content, DamagedObject, NoSuchObject, ObjectStore

MISSING: Final = "missing.txt"
_UNIX: Final = 3
_READABLE: Final = 0o100644 << 16
_FIRST, _LAST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, tzinfo=UTC)
_HEADING = "These are not in this archive, or not as a whole:\n\n"


class _Pipe:
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def take(self) -> bytes:
        taken, self._written = b"".join(self._written), []
        return taken


async def zipped(
    store: ObjectStore, organization: str, times: Mapping[str, int | None]
) -> AsyncGenerator[bytes]:
    """Names and when they were made; None: it is not there. What is gone when its turn comes, or
    damaged, is listed in a file of the archive's own. Whatever else goes wrong ends it in the
    middle, which whoever reads it sees."""
    pipe, taken, missing = _Pipe(), ArchiveNames(MISSING), dict[str, str]()
    with ZipFile(cast("IO[bytes]", pipe), "w") as archive:
        for name, at in times.items():
            try:
                found, first = await _begin(store, organization, name, at)
                header = _header(taken.take(name), at or 0, found.info.size)
                async with _closing(found) as chunks:
                    with archive.open(header, "w") as file:
                        file.write(first)
                        yield pipe.take()
                        async for chunk in chunks:
                            file.write(chunk)
                            yield pipe.take()
            except (NotFound, DamagedObject) as error:
                missing[name] = error.message
        if missing:
            listed = "".join(f"{name}\n    {words}\n" for name, words in missing.items())
            archive.writestr(_header(MISSING, _newest(times), 0), _HEADING + listed)
    yield pipe.take()


async def _begin(
    store: ObjectStore, organization: str, name: str, at: int | None
) -> tuple[Content, bytes]:
    """With its first bytes: what is wrong with it until then leaves no trace in the archive."""
    if at is None:
        raise NotFound("It was not in the library.")
    try:
        found = await store.get(object_key(organization, name))
        return found, await anext(found.chunks, b"")
    except NoSuchObject as error:
        raise NotFound("It was deleted meanwhile.") from error


def _closing(found: Content) -> "aclosing[AsyncGenerator[bytes]]":
    return aclosing(cast("AsyncGenerator[bytes]", found.chunks))


def _header(name: str, at: int, size: int) -> ZipInfo:
    """The size says whether its place in the archive needs 64 bits. Archives know no time zone."""
    moment = min(max(datetime.fromtimestamp(at / 1000, UTC), _FIRST), _LAST)
    header = ZipInfo(name, moment.timetuple()[:6])
    header.create_system, header.external_attr, header.file_size = _UNIX, _READABLE, size
    return header


def _newest(times: Mapping[str, int | None]) -> int:
    return max((at for at in times.values() if at is not None), default=0)
