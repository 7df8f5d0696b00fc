"""Signed webhooks as Replicate sends them: HMAC-SHA256 over id, time and body. Pure."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

OLDEST_SECONDS = 300


def verify(secret: str, headers: Mapping[str, str], body: bytes, now_ms: int) -> bool:
    """`headers` with lower-case names; a signature of another age than the present is nobody's."""
    message_id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not sent.isdigit() or len(sent) > 12:  # noqa: PLR2004 - seconds
        return False
    if abs(now_ms / 1000 - int(sent)) > OLDEST_SECONDS:
        return False
    expected = sign(secret, message_id, sent, body)
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


def sign(secret: str, message_id: str, sent: str, body: bytes) -> str:
    signed = f"{message_id}.{sent}.".encode() + body
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def is_usable(secret: object) -> bool:
    try:
        return isinstance(secret, str) and len(_key(secret)) > 0
    except binascii.Error:
        return False


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_") + "==")
