"""What happened to an object, in the one shape all sources are brought into."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OURS: Final = "safelight"  # the source of the events this package writes


class Action(StrEnum):
    CREATED = "created"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """`sequencer` orders events of one key from one `source`; times order the others."""

    id: int
    source: str
    action: Action
    key: str
    organization: str | None
    event_time: int
    sequencer: str | None
    etag: str | None
    size: int | None
    metadata: Mapping[str, str] | None
