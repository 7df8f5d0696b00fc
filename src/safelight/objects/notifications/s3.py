"""S3 records, alone or in a list, and the message S3 sends to try a new configuration."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus

from safelight.objects.events import Action
from safelight.objects.notifications.notice import (
    MINIO,
    S3,
    Body,
    Format,
    Ignored,
    NotificationItem,
    Wrapped,
)
from safelight.objects.notifications.reading import Claims, classify_claims, part

_FAMILIES: Final = {
    "ObjectCreated": Action.CREATED,
    "ObjectRemoved": Action.DELETED,
    "LifecycleExpiration": Action.DELETED,
}
# MinIO files changes of what surrounds an object under creation.
_NOT_CONTENT: Final = frozenset({"PutTagging", "DeleteTagging", "PutRetention", "PutLegalHold"})
# Ceph's words for what a lifecycle rule does; of all it can, this alone ends an object.
_EXPIRED: Final = ("ObjectLifecycle", "Expiration:Current")
_SOURCES: Final = {"minio:s3": MINIO}


def _is_test(body: Body) -> bool:
    return body.get("Event") == "s3:TestEvent"


def _read_test(body: Body) -> Iterable[NotificationItem]:
    yield Ignored("TEST_EVENT", "S3 tried out its notification configuration.", body)


def _is_record(body: Body) -> bool:
    source = body.get("eventSource")
    return "s3" in body or (isinstance(source, str) and source.endswith(":s3"))


def _read_record(body: Body) -> Iterable[NotificationItem]:
    name, s3 = body.get("eventName"), part(body, "s3")
    about = part(s3, "object")
    yield classify_claims(
        Claims(
            raw=body,
            source=_source(body.get("eventSource")),
            action=_action(name) if isinstance(name, str) else None,
            action_name=name,
            key=_decoded(about.get("key")),
            time=body.get("eventTime"),
            bucket=part(s3, "bucket").get("name"),
            sequencer=about.get("sequencer"),
            etag=about.get("eTag"),
            size=about.get("size"),
            metadata=about.get("userMetadata"),
        )
    )


def _is_list(body: Body) -> bool:
    return isinstance(body.get("Records"), list)


def _read_list(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["Records"])


def _action(name: str) -> Action | None:
    family, _, kind = name.removeprefix("s3:").partition(":")
    if (family, kind) == _EXPIRED:
        return Action.DELETED
    return None if kind in _NOT_CONTENT else _FAMILIES.get(family)


def _source(name: object) -> str:
    """Other makers of the same records count as S3: a bucket has one maker."""
    return _SOURCES.get(name, S3) if isinstance(name, str) else S3


def _decoded(key: object) -> object:
    """Keys arrive as in a web form; one that is not UTF-8 is no key of ours."""
    try:
        return unquote_plus(key, errors="strict") if isinstance(key, str) else key
    except UnicodeDecodeError:
        return None


TEST: Final = Format("S3 test event", _is_test, _read_test)
RECORD: Final = Format("S3 record", _is_record, _read_record)
RECORDS: Final = Format("S3 records", _is_list, _read_list)
