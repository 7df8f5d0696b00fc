"""What reading a notification can find: first of all a notice, an event as a store tells it, which
becomes an `ObjectEvent` when it is taken down."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from safelight.objects.events import Action

# Sources: who made and numbered the event, by whatever road the news of it came.
R2: Final = "r2"
S3: Final = "s3"
MINIO: Final = "minio"
SEAWEEDFS: Final = "seaweedfs"


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


@dataclass(frozen=True, slots=True)
class Ignored:
    """Not for us, and rightly so. `raw` is fit for a JSON column and never None."""

    code: str
    reason: str
    raw: object


@dataclass(frozen=True, slots=True)
class Rejected:
    """Can never be processed: a dead letter at once. `raw` is as in `Ignored`."""

    code: str
    reason: str
    raw: object


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A courier asks whether it may bring us something (`kind`, in its own words). `url` is for a
    person who knows the topic; nobody else opens it."""

    kind: str
    topic: str
    url: str


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Something inside an envelope, still to be recognised; text is JSON to be parsed."""

    body: object


NotificationItem: TypeAlias = Notice | Ignored | Rejected | Confirmation | Wrapped
Body: TypeAlias = Mapping[object, object]


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of notification. `read` takes only what `matches`, and neither ever raises."""

    name: str
    matches: Callable[[Body], bool]
    read: Callable[[Body], Iterable[NotificationItem]]


@dataclass(frozen=True, slots=True)
class Normalised:
    events: list[Notice] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)
