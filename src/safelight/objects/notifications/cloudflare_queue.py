"""Cloudflare Queues: what a pull consumer gets or a forwarding Worker sends on.

The service gives JSON bodies in base64; a Worker gives them as objects or as text.
"""

import base64
from collections.abc import Iterable
from typing import Final

from safelight.objects.notifications.notice import Body, Format, NotificationItem, Wrapped
from safelight.objects.notifications.reading import part


def _is_answer(body: Body) -> bool:
    return isinstance(part(body, "result").get("messages"), list)


def _read_answer(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(part(body, "result"))


def _is_batch(body: Body) -> bool:
    return isinstance(body.get("messages"), list)


def _read_batch(body: Body) -> Iterable[NotificationItem]:
    yield Wrapped(body["messages"])


def _is_message(body: Body) -> bool:
    return "body" in body


def _read_message(body: Body) -> Iterable[NotificationItem]:
    inner = body["body"]
    yield Wrapped(_plain(inner) if isinstance(inner, str) else inner)


def _plain(text: str) -> str:
    """JSON for us begins with a bracket, which base64 never does."""
    if text.lstrip().startswith(("{", "[")):
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text


ANSWER: Final = Format("Cloudflare Queues pull answer", _is_answer, _read_answer)
BATCH: Final = Format("Cloudflare Queues batch", _is_batch, _read_batch)
MESSAGE: Final = Format("Cloudflare Queues message", _is_message, _read_message)
