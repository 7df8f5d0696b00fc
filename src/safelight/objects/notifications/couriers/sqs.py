"""Amazon SQS, and what speaks its JSON protocol: sqs://ACCOUNT/QUEUE?region=…

It waits for messages. Its answers to a batch tell of each message by itself.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from safelight.errors import ConfigurationError
from safelight.infra.injected import Clock
from safelight.objects.aws_signature import AwsKeys, keys_of, signed
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

_VENDOR: Final = "SQS"
_MOST: Final = 10  # of a batch, both ways
_WAIT: Final = 20  # the longest it waits
_SECONDS: Final = 20.0
_DIGITS: Final = re.compile(r"[0-9]{1,15}")


def open_sqs(address: CourierAddress, aws: Mapping[str, str], clock: Clock) -> Courier:
    """`aws`: what the address does not say, AWS_* variables may."""
    given = address.among(
        "region", "endpoint", "access_key_id", "secret_access_key", "session_token"
    )
    known = {**aws, **given}
    region = known.get("region") or known.get("default_region")
    keys = keys_of(given, aws)
    if not region or keys is None:
        raise ConfigurationError(
            f"{SETTING}: SQS needs region, access_key_id and secret_access_key, there or as "
            "AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    endpoint = endpoint_of(address, f"https://sqs.{region}.amazonaws.com")
    queue = f"{endpoint}/{address.account}/{address.queue}"
    return SqsQueue(endpoint, queue, region, keys, clock)


class SqsQueue:
    def __init__(self, endpoint: str, queue: str, region: str, keys: AwsKeys, clock: Clock) -> None:
        self.where = f"SQS queue {queue}"
        self._endpoint = endpoint
        self._queue = queue
        self._region = region
        self._keys = keys
        self._clock = clock
        self._exchange = Exchange(_VENDOR, clock)

    async def close(self) -> None:
        await self._exchange.close()

    async def receive(self) -> Fetched:
        wanted = {
            "MaxNumberOfMessages": _MOST,
            "WaitTimeSeconds": _WAIT,
            "VisibilityTimeout": HIDDEN_SECONDS,
            "AttributeNames": ["ApproximateReceiveCount", "SentTimestamp"],
        }
        answer = await self._ask("ReceiveMessage", wanted, _WAIT + _SECONDS)
        messages = answer.get("Messages") or []
        if not isinstance(messages, list):
            raise CourierAway(f"{_VENDOR}'s answer holds no list of messages.")
        return Fetched([_parcel(message) for message in messages if _has_receipt(message)])

    async def answer(self, done: Sequence[Parcel], again: Sequence[tuple[Parcel, int]]) -> int:
        gone = [{"ReceiptHandle": parcel.receipt} for parcel in done]
        later = [
            {"ReceiptHandle": parcel.receipt, "VisibilityTimeout": seconds}
            for parcel, seconds in again
        ]
        refused = await self._answer("DeleteMessageBatch", gone)
        return refused + await self._answer("ChangeMessageVisibilityBatch", later)

    async def _answer(self, action: str, entries: Sequence[Mapping[str, Any]]) -> int:
        if not entries:
            return 0
        numbered = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
        answer = await self._ask(action, {"Entries": numbered}, _SECONDS)
        taken = answer.get("Successful")
        return len(entries) - (len(taken) if isinstance(taken, list) else 0)

    async def _ask(self, action: str, body: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        sent = json.dumps({"QueueUrl": self._queue, **body}).encode()
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "host": urlsplit(self._endpoint).netloc,
            "x-amz-target": f"AmazonSQS.{action}",
        }
        now = self._clock.now_ms()
        ready = signed(
            headers, sent, service="sqs", region=self._region, keys=self._keys, now_ms=now
        )
        return await self._exchange.ask(f"{self._endpoint}/", sent, ready, seconds)


def _has_receipt(message: object) -> bool:
    """Without one there is nothing to answer, and it comes again."""
    return isinstance(message, dict) and isinstance(message.get("ReceiptHandle"), str)


def _parcel(message: Mapping[str, Any]) -> Parcel:
    about = message.get("Attributes")
    known = about if isinstance(about, dict) else {}
    return Parcel(
        receipt=message["ReceiptHandle"],
        body={"Body": message.get("Body")},
        attempts=_count(known.get("ApproximateReceiveCount")) or 1,
        sent_ms=_count(known.get("SentTimestamp")),
    )


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None
