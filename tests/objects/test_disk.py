"""A disk that is in trouble is away, and what it would have been asked for is not to blame."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from objects.stores import Local, digest, stream
from safelight.infra.away import is_away
from safelight.infra.files import joined
from safelight.objects.store import DamagedObject, Facts, StoreUnavailable

KEY = "acme/cat.jpg"
BLOB = digest(b"meow")
TROUBLES = [errno.EIO, errno.EACCES, errno.ESTALE, errno.ENODEV]


@pytest.fixture
async def kept(local: Local) -> Local:
    await local.store.put(KEY, stream(b"meow"), Facts("image/jpeg"))
    return local


@pytest.fixture(params=TROUBLES, ids=lambda number: errno.errorcode[number])
def trouble(request: pytest.FixtureRequest) -> OSError:
    return OSError(request.param, os.strerror(request.param))


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Ends before the store is looked at again."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def fail(patch: pytest.MonkeyPatch, call: str, trouble: OSError) -> None:
    """One of the operating system's calls, for blobs only."""
    original = getattr(os, call)

    def failing(what: Any, *more: Any, **options: Any) -> Any:
        path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else Path(what)
        if path.name == BLOB:
            raise trouble
        return original(what, *more, **options)

    patch.setattr(os, call, failing)


@pytest.mark.parametrize("call", ["open", "pread"])
async def test_bytes_that_are_read(
    kept: Local, patch: pytest.MonkeyPatch, trouble: OSError, call: str
) -> None:
    content = await kept.store.get(KEY)
    fail(patch, call, trouble)
    with structlog.testing.capture_logs() as logs, pytest.raises(StoreUnavailable) as raised:
        await joined(content.chunks)
    assert is_away(raised.value)
    assert str(kept.root) not in str(raised.value)
    assert [line["reason"] for line in logs if str(kept.root) in line["reason"]]


@pytest.mark.parametrize("call", ["open", "fstat"])
async def test_a_file_that_is_handed_to_a_child(
    kept: Local, patch: pytest.MonkeyPatch, trouble: OSError, call: str
) -> None:
    content = await kept.store.get(KEY)
    before = len(list(Path("/proc/self/fd").iterdir()))
    fail(patch, call, trouble)
    with pytest.raises(StoreUnavailable):
        async with content.source():
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_file_that_is_compared_with_its_name(
    kept: Local, patch: pytest.MonkeyPatch, trouble: OSError
) -> None:
    def failing(_: Path) -> Any:
        raise trouble

    patch.setattr("safelight.objects.blobs.measure", failing)
    with pytest.raises(StoreUnavailable):
        kept.blobs.is_whole(BLOB)


async def test_a_file_that_is_missing_from_a_disk_that_is_well_is_damage(kept: Local) -> None:
    """Nobody waits for that."""
    content = await kept.store.get(KEY)
    kept.blobs.path(BLOB).unlink()
    with pytest.raises(DamagedObject) as raised:
        await joined(content.chunks)
    assert not is_away(raised.value)
    assert not kept.blobs.is_whole(BLOB)
    await kept.store.put(KEY, stream(b"meow"), Facts("image/jpeg"))
