"""Where submitted images come from. A new source is one file and one line in registry.py."""

from dataclasses import dataclass
from typing import Protocol

from safelight.errors import InvalidRequest, NotFound


class UnknownSource(NotFound):
    """There is no such image to submit."""


class NotAPicture(InvalidRequest):
    """Only still pictures can be submitted, not videos or other files."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it is now. `marker` tells it from what may have its name later; `etag` from what
    may be there a moment later."""

    key: str
    etag: str
    marker: str
    time: int
    content_type: str
    size: int


class Source(Protocol):
    @property
    def kind(self) -> str:
        """Its name in `{"source": {kind: id}}`, and the type of its subject in history."""

    async def find(self, organization: str, source_id: str) -> Found:
        """Raises `UnknownSource`, `NotReady` for one that is not stored yet, or `NotAPicture`."""


def picture_only(content_type: str) -> None:
    """What only claims to be a picture is for the scan to find out."""
    if content_type.startswith(("video/", "audio/", "text/")):
        raise NotAPicture
