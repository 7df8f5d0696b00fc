"""An event as a store's notification tells it; taken down, it becomes an `ObjectEvent`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from safelight.objects.events import Action

# Sources: who made and numbered the event, by whatever road the news of it came.
R2: Final = "r2"
S3: Final = "s3"
MINIO: Final = "minio"


@dataclass(frozen=True, slots=True)
class Notice:
    """`event_id` is the same for deliveries of the same content. It is fit for joining deliveries
    that still wait, not for dropping one: only the library knows what became of the first."""

    event_id: str
    source: str
    action: Action
    key: str
    organization: str
    event_time: int
    sequencer: str | None = None
    etag: str | None = None
    size: int | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)
    bucket: str | None = None
