"""A bucket in memory that lives by the test's clock, as its notifications do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safelight.objects.s3 import S3Store
from safelight.objects.store import Facts, Listed

if TYPE_CHECKING:
    from obstore import GetOptions


@dataclass(frozen=True, slots=True)
class _Found:
    """What a bucket answers, with another date."""

    found: Any
    meta: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.found, name)


class DatedStore(S3Store):
    """Whole seconds are all that HTTP has for a date. What others put there is from long ago."""

    _seconds: dict[str, int]  # by eTag, which no two objects of the bucket have in common

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._seconds = {}

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        listed = await super().list(prefix, after, limit)
        return [replace(one, event_time=self._seconds.get(one.etag, 0) * 1000) for one in listed]

    async def _upload(self, key: str, path: Path, facts: Facts) -> str:
        etag = await super()._upload(key, path, facts)
        self._seconds[etag] = self._clock.now_ms() // 1000
        return etag

    async def _ask(self, key: str, options: "GetOptions") -> Any:
        found = await super()._ask(key, options)
        date = datetime.fromtimestamp(self._seconds.get(found.meta["e_tag"].strip('"'), 0), UTC)
        return _Found(found, {**found.meta, "last_modified": date})
