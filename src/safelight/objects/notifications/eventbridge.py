"""EventBridge: S3's news under other names, times in whole seconds, the key as it is."""

from collections.abc import Iterable
from typing import Final

from safelight.objects.events import Action
from safelight.objects.notifications.notice import S3, Body, Format, Ignored, NotificationItem
from safelight.objects.notifications.reading import Claims, classify_claims, part

# Both kinds of deletion count: a delete marker hides the object as surely.
_ACTIONS: Final = {"Object Created": Action.CREATED, "Object Deleted": Action.DELETED}


def _matches(body: Body) -> bool:
    return "detail-type" in body


def _read(body: Body) -> Iterable[NotificationItem]:
    if body.get("source") != "aws.s3":
        yield Ignored("UNKNOWN_ACTION", "Only events of aws.s3 are about objects.", body)
        return
    name, detail = body["detail-type"], part(body, "detail")
    about = part(detail, "object")
    yield classify_claims(
        Claims(
            raw=body,
            source=S3,
            action=_ACTIONS.get(name) if isinstance(name, str) else None,
            action_name=name,
            key=about.get("key"),
            time=body.get("time"),
            bucket=part(detail, "bucket").get("name"),
            sequencer=about.get("sequencer"),
            etag=about.get("etag"),
            size=about.get("size"),
        )
    )


EVENT: Final = Format("EventBridge event", _matches, _read)
