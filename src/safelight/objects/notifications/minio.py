"""MinIO's webhook: S3 records under a heading, with the object's metadata on creation."""

from collections.abc import Iterable, Mapping
from typing import Final

from safelight.objects.notifications.notice import Body, Format, NotificationItem, Wrapped


def _matches(body: Body) -> bool:
    return "EventName" in body and isinstance(body.get("Records"), list)


def _read(body: Body) -> Iterable[NotificationItem]:
    records = body["Records"]
    if isinstance(records, list):
        yield Wrapped([_signed(record) for record in records])


def _signed(record: object) -> object:
    if not isinstance(record, Mapping) or "eventSource" in record:
        return record
    return {**record, "eventSource": "minio:s3"}


WEBHOOK: Final = Format("MinIO webhook", _matches, _read)
