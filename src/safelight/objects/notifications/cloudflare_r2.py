"""Cloudflare R2: one message, its key as it is, no metadata and no number."""

from collections.abc import Iterable
from typing import Final

from safelight.objects.events import Action
from safelight.objects.notifications.notice import R2, Body, Format, NotificationItem
from safelight.objects.notifications.reading import Claims, classify_claims, part

_ACTIONS: Final = {
    "PutObject": Action.CREATED,
    "CopyObject": Action.CREATED,
    "CompleteMultipartUpload": Action.CREATED,
    "DeleteObject": Action.DELETED,
    "LifecycleDeletion": Action.DELETED,
}


def _matches(body: Body) -> bool:
    return "action" in body and ("object" in body or "eventTime" in body)


def _read(body: Body) -> Iterable[NotificationItem]:
    name, about = body["action"], part(body, "object")
    yield classify_claims(
        Claims(
            raw=body,
            source=R2,
            action=_ACTIONS.get(name) if isinstance(name, str) else None,
            action_name=name,
            key=about.get("key"),
            time=body.get("eventTime"),
            bucket=body.get("bucket"),
            etag=about.get("eTag"),
            size=about.get("size"),
        )
    )


MESSAGE: Final = Format("Cloudflare R2 message", _matches, _read)
