"""SNS: an envelope around the text of another notification.

A request to confirm a subscription, or its end, is not followed: its address comes from outside, so
it is shown to a person, who opens it once after looking at the topic.
"""

import re
from collections.abc import Iterable
from typing import Final

from safelight.objects.notifications.notice import (
    Body,
    Confirmation,
    Format,
    Ignored,
    NotificationItem,
    Wrapped,
)
from safelight.objects.notifications.reading import part

_TOPIC: Final = re.compile(r"[!-~]{1,300}")
_ADDRESS: Final = re.compile(r"https?://[!-~]{1,2000}")
_CONFIRMATIONS: Final = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})


def _is_notification(body: Body) -> bool:
    return body.get("Type") == "Notification" and "Message" in body


def _read_notification(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["Message"])


def _is_confirmation(body: Body) -> bool:
    return isinstance(kind := body.get("Type"), str) and kind in _CONFIRMATIONS


def _read_confirmation(body: Body) -> Iterable[NotificationItem]:
    topic, url = body.get("TopicArn"), body.get("SubscribeURL")
    if _fits(_TOPIC, topic) and _fits(_ADDRESS, url):
        yield Confirmation(str(body["Type"]), str(topic), str(url))
    else:
        yield Ignored("CONFIRMATION", "It names no topic and address to confirm.", body)


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_record(body: Body) -> bool:
    return bool(part(body, "Sns"))


def _read_record(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped({"Type": "Notification", **part(body, "Sns")})


NOTIFICATION: Final = Format("SNS notification", _is_notification, _read_notification)
CONFIRMATION: Final = Format("SNS confirmation", _is_confirmation, _read_confirmation)
RECORD: Final = Format("SNS record", _is_record, _read_record)
