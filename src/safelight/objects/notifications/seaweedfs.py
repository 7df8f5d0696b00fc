"""SeaweedFS's webhook: what happened in its file system, below `/buckets`.

A record has no time of its own. A creation is told by the entry's time of change, in whole seconds,
so within one the bucket is asked what it holds. A deletion is told by that of what it deleted, and
comes right after its second: asking would not help, since the bucket goes on answering for some
milliseconds as if nothing had happened.
Known gap: what is put, deleted and put again within one second counts as deleted, until library and
bucket are compared.
"""

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from safelight.objects.events import Action
from safelight.objects.notifications.notice import (
    SEAWEEDFS,
    Body,
    Format,
    Ignored,
    NotificationItem,
)
from safelight.objects.notifications.reading import Claims, classify_claims, part

_ACTIONS: Final = {
    "create": Action.CREATED,
    "update": Action.CREATED,
    "delete": Action.DELETED,
}
_BUCKETS: Final = "/buckets/"
_UPLOADS: Final = ".uploads"  # parts that are still to be put together
_ETAG: Final = "Seaweed-X-Amz-ETag"


def _matches(body: Body) -> bool:
    return "event_type" in body and "key" in body and bool(part(body, "message"))


def _read(body: Body) -> Iterable[NotificationItem]:
    name, message = body["event_type"], part(body, "message")
    entry = part(message, "new_entry") or part(message, "old_entry")
    about, extended = part(entry, "attributes"), part(entry, "extended")
    bucket, key = _split(body["key"])
    deleted = name == "delete"
    if entry.get("is_directory") is True or (key or "").split("/")[0] in {"", _UPLOADS}:
        yield Ignored("RESERVED_KEY", "It is about no object of a bucket.", body)
        return
    yield classify_claims(
        Claims(
            raw=body,
            source=SEAWEEDFS,
            action=_ACTIONS.get(name) if isinstance(name, str) else None,
            action_name=name,
            key=key,
            time=_time(about.get("mtime"), deleted=deleted),
            bucket=bucket,
            etag=_plain(extended.get(_ETAG)),
            size=about.get("file_size"),
            metadata={key: _plain(value) for key, value in extended.items()},
        )
    )


def _split(path: object) -> tuple[str | None, str | None]:
    """A bucket's name, and the key as it is."""
    if not isinstance(path, str) or not path.startswith(_BUCKETS):
        return None, None
    bucket, _, key = path.removeprefix(_BUCKETS).partition("/")
    return bucket, key


def _time(seconds: object, *, deleted: bool) -> str | None:
    """Without a fraction it counts as the end of the second."""
    if not isinstance(seconds, int):
        return None
    try:
        moment = datetime.fromtimestamp(seconds + deleted, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}{'.000' if deleted else ''}Z"
    except (ValueError, OverflowError, OSError):
        return None


def _plain(value: object) -> str | None:
    """Attributes are bytes, and those come in base64."""
    try:
        return base64.b64decode(value, validate=True).decode() if isinstance(value, str) else None
    except ValueError:
        return None


WEBHOOK: Final = Format("SeaweedFS webhook", _matches, _read)
