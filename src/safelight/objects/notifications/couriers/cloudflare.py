"""Cloudflare Queues, as an HTTP pull consumer: cloudflare-queue://ACCOUNT/QUEUE_ID?token=…

Bodies come as they were sent or in base64, which the reader of its messages knows. It does not wait
for messages. Its answer to a batch says how many it took, not which.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from safelight.errors import ConfigurationError
from safelight.infra.injected import Clock
from safelight.objects.notifications.couriers.base import (
    HIDDEN_SECONDS,
    SETTING,
    Courier,
    CourierAddress,
    CourierAway,
    Fetched,
    Parcel,
    endpoint_of,
)
from safelight.objects.notifications.couriers.exchange import Exchange
from safelight.objects.notifications.notice import Body

_VENDOR: Final = "Cloudflare Queues"
_USUAL: Final = "https://api.cloudflare.com/client/v4"
_MOST: Final = 100
_SECONDS: Final = 20.0


def open_cloudflare(address: CourierAddress, aws: Mapping[str, str], clock: Clock) -> Courier:
    del aws
    options = address.among("token", "endpoint")
    token = options.get("token", "")
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"{SETTING}: a Cloudflare queue needs token=…, an API token that may edit Queues."
        )
    base = endpoint_of(address, _USUAL, path=True)
    url = f"{base}/accounts/{address.account}/queues/{address.queue}/messages"
    return CloudflareQueue(url, token, address.queue, Exchange(_VENDOR, clock))


class CloudflareQueue:
    def __init__(self, url: str, token: str, queue: str, exchange: Exchange) -> None:
        self.where = f"Cloudflare queue {queue}"
        self._url = url
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._exchange = exchange

    async def close(self) -> None:
        await self._exchange.close()

    async def receive(self) -> Fetched:
        wanted = {"visibility_timeout_ms": HIDDEN_SECONDS * 1000, "batch_size": _MOST}
        result = await self._ask("pull", wanted)
        messages = result.get("messages")
        if not isinstance(messages, list):
            raise CourierAway(f"{_VENDOR}' answer holds no list of messages.")
        parcels = [_parcel(message) for message in messages if _has_receipt(message)]
        return Fetched(parcels, _count(result.get("message_backlog_count")))

    async def answer(self, done: Sequence[Parcel], again: Sequence[tuple[Parcel, int]]) -> int:
        acks = [{"lease_id": parcel.receipt} for parcel in done]
        retries = [
            {"lease_id": parcel.receipt, "delay_seconds": seconds} for parcel, seconds in again
        ]
        result = await self._ask("ack", {"acks": acks, "retries": retries})
        taken = [_count(result.get(name)) for name in ("ackCount", "retryCount")]
        return max(len(acks) + len(retries) - sum(count or 0 for count in taken), 0)

    async def _ask(self, what: str, body: Mapping[str, Any]) -> Body:
        sent = json.dumps(body).encode()
        answer = await self._exchange.ask(f"{self._url}/{what}", sent, self._headers, _SECONDS)
        if answer.get("success") is not True:
            raise CourierAway(f"{_VENDOR} answered without success.")
        result = answer.get("result")
        return result if isinstance(result, dict) else {}


def _has_receipt(message: object) -> bool:
    """Without one there is nothing to answer, and it comes again."""
    return isinstance(message, dict) and isinstance(message.get("lease_id"), str)


def _parcel(message: Mapping[str, Any]) -> Parcel:
    return Parcel(
        receipt=message["lease_id"],
        body={"body": message.get("body")},
        attempts=_count(message.get("attempts")) or 1,
        sent_ms=_count(message.get("timestamp_ms")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
