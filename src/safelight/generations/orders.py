"""A task as its provider is told of it, and the address the provider calls when it is done. Pure.

The token in that address proves that it was ours to give.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import urlencode

from safelight.generations.lifecycle import Generation, Task
from safelight.generations.providers.base import Order
from safelight.infra.injected import Clock

# A call that is open when the time is over ends a little later: the timer decides first.
_BEYOND_SECONDS = 1.0


class WebhookAddresses:
    """`base` gives the address vendors reach this server at, at the moment it is needed."""

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


class Orders:
    def __init__(self, addresses: WebhookAddresses, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock

    def order(self, generation: Generation, task: Task) -> Order:
        left = (generation.deadline - self._clock.now_ms()) / 1000
        return Order(
            generation_id=generation.id,
            artifact_id=task.artifact_id,
            position=task.position,
            task_id=task.provider_task_id,
            kind=generation.kind,
            model=generation.model,
            input=generation.input,
            webhook_url=self._addresses.url(generation.provider, generation.id, task.artifact_id),
            seconds=max(left, 0.0) + _BEYOND_SECONDS,
        )
