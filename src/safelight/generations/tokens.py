"""The address a provider calls when it is done, and the token that proves it was ours to give."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import urlencode


class WebhookAddresses:
    """`base` gives the address this server is reached at, at the moment it is needed."""

    def __init__(self, secret: str, base: Callable[[], str]) -> None:
        self._secret = secret.encode()
        self._base = base

    def token(self, generation_id: str) -> str:
        digest = hmac.new(self._secret, generation_id.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def fits(self, generation_id: str, token: str) -> bool:
        return hmac.compare_digest(self.token(generation_id).encode(), token.encode())

    def url(self, provider: str, generation_id: str, artifact_id: str) -> str:
        query = {
            "generation_id": generation_id,
            "token": self.token(generation_id),
            "task": artifact_id,
        }
        return f"{self._base()}/webhooks/{provider}?{urlencode(query)}"
