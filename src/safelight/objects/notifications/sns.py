"""SNS: an envelope around the text of another notification.

A request to confirm a subscription is not followed: its address comes from outside, so a person
opens it once after looking at the topic.
"""

from collections.abc import Iterable
from typing import Final

from safelight.objects.notifications.notice import Body, Format, Ignored, NotificationItem, Wrapped
from safelight.objects.notifications.reading import part

_CONFIRMATIONS: Final = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})


def _is_notification(body: Body) -> bool:
    return body.get("Type") == "Notification" and "Message" in body


def _read_notification(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["Message"])


def _is_confirmation(body: Body) -> bool:
    return isinstance(kind := body.get("Type"), str) and kind in _CONFIRMATIONS


def _read_confirmation(body: Body) -> Iterable[NotificationItem]:
    reason = (
        f"SNS sent a {body['Type']} for the topic {str(body.get('TopicArn'))[:256]!a}. "
        "If the topic is yours, open the SubscribeURL of this message once."
    )
    yield Ignored("CONFIRMATION", reason, body)


def _is_record(body: Body) -> bool:
    return bool(part(body, "Sns"))


def _read_record(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped({"Type": "Notification", **part(body, "Sns")})


NOTIFICATION: Final = Format("SNS notification", _is_notification, _read_notification)
CONFIRMATION: Final = Format("SNS confirmation", _is_confirmation, _read_confirmation)
RECORD: Final = Format("SNS record", _is_record, _read_record)
