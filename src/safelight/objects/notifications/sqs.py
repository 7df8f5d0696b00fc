"""SQS: messages as received by polling, or as records handed to a function."""

from collections.abc import Iterable
from typing import Final

from safelight.objects.notifications.notice import Body, Format, NotificationItem, Wrapped


def _is_answer(body: Body) -> bool:
    return isinstance(body.get("Messages"), list)


def _read_answer(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["Messages"])


def _is_message(body: Body) -> bool:
    return "Body" in body


def _read_message(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["Body"])


def _is_record(body: Body) -> bool:
    return "body" in body and body.get("eventSource") == "aws:sqs"


def _read_record(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["body"])


ANSWER: Final = Format("SQS answer", _is_answer, _read_answer)
MESSAGE: Final = Format("SQS message", _is_message, _read_message)
RECORD: Final = Format("SQS record", _is_record, _read_record)
