"""Queues on loopback that behave as Cloudflare's and Amazon's do, and as badly when told to.

    async with post_office("sqs") as office:
        office.send(record)
        office.next(turned_away(429, "7"), garbage)   # what the next requests get; then all is well
        …
        assert office.waiting == []

Like the vendors it looks at credentials, hides what it gave out until a lease ends, and gives a new
receipt each time. Time passes by `advance` only.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it has no stubs
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # likewise
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # likewise

from emulators.wire import Exchange, Loopback, loopback

TOKEN = "cf-token-that-nobody-may-see"
SECRET = "aws-secret+that/nobody-may-see"
SENT_MS = 1_800_000_000_000

Behaviour = Callable[[Exchange], Awaitable[None]]


@dataclass
class Letter:
    number: int
    body: str
    content_type: str = "json"
    visible: float = 0.0
    attempts: int = 0
    receipts: list[str] = field(default_factory=list)


@dataclass
class PostOffice:
    kind: str
    wire: Loopback | None = None
    now: float = 0.0
    twice: bool = False  # gives each of them out twice
    backwards: bool = False  # the newest first
    before_answers: Callable[[], None] = lambda: None
    refused: set[int] = field(default_factory=set)  # letters whose answers are not taken
    waiting: list[Letter] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    _next: deque[Behaviour] = field(default_factory=deque)
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def address(self) -> str:
        """As SAFELIGHT_NOTIFICATIONS_URL has it."""
        assert self.wire
        if self.kind == "sqs":
            keys = "access_key_id=key&secret_access_key=aws-secret%2Bthat%2Fnobody-may-see"
            return (
                f"sqs://123456789012/pictures?region=eu-central-1&{keys}&endpoint={self.wire.url}"
            )
        return f"cloudflare-queue://acc1/q1?token={TOKEN}&endpoint={self.wire.url}/client/v4"

    def send(self, body: Any, content_type: str = "json") -> Letter:
        text = body if isinstance(body, str) else json.dumps(body)
        letter = Letter(next(self._numbers), text, content_type)
        self.waiting.append(letter)
        return letter

    def next(self, *behaviours: Behaviour) -> None:
        self._next.extend(behaviours)

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def handle(self, exchange: Exchange) -> None:
        await (self._next.popleft() if self._next else self.handle_well)(exchange)

    async def handle_well(self, exchange: Exchange) -> None:
        if self.kind == "sqs":
            await _as_amazon(self, exchange)
        else:
            await _as_cloudflare(self, exchange)

    # What both do

    def give(self, most: int, hidden: float) -> list[tuple[Letter, str]]:
        ready = [letter for letter in self.waiting if letter.visible <= self.now][:most]
        given = []
        for letter in reversed(ready) if self.backwards else ready:
            letter.attempts += 1
            letter.visible = self.now + hidden
            for _ in range(2 if self.twice else 1):
                letter.receipts.append(f"receipt-{letter.number}-{next(self._numbers)}")
                given.append((letter, letter.receipts[-1]))
        return given

    def of(self, receipt: str) -> Letter | None:
        """Whose it is, while its lease lasts."""
        for letter in self.waiting:
            if receipt in letter.receipts and letter.visible > self.now:
                return None if letter.number in self.refused else letter
        return None

    def take_away(self, receipt: str) -> bool:
        letter = self.of(receipt)
        if letter:
            self.waiting.remove(letter)
        return letter is not None

    def show_later(self, receipt: str, seconds: float) -> bool:
        letter = self.of(receipt)
        if letter:
            letter.visible = self.now + seconds
        return letter is not None


@asynccontextmanager
async def post_office(kind: str) -> AsyncIterator[PostOffice]:
    office = PostOffice(kind)
    async with loopback(office.handle) as office.wire:
        yield office


# What they do when they do not do well


def turned_away(status: int, retry_after: str | None = None) -> Behaviour:
    headers = {"retry-after": retry_after} if retry_after else {}

    async def behave(exchange: Exchange) -> None:
        said = {"success": False, "errors": [{"code": 10000}], "__type": "com.amazonaws#Throttled"}
        await exchange.answer(status, said, headers)

    return behave


def saying(body: Any) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        await exchange.answer(200, body)

    return behave


async def silence(exchange: Exchange) -> None:
    await asyncio.sleep(60)


async def drip(exchange: Exchange) -> None:
    await exchange.begin(200, {"content-length": "1000000"})
    while True:
        await exchange.send(b" ")
        await asyncio.sleep(0.01)


async def cut(exchange: Exchange) -> None:
    await exchange.begin(200, {"content-length": "1000"})
    await exchange.send(b'{"success": true, "result": {"mess')
    exchange.cut()


# The two dialects


async def _as_cloudflare(office: PostOffice, exchange: Exchange) -> None:
    what = exchange.path.removeprefix("/client/v4/accounts/acc1/queues/q1/messages/")
    if exchange.headers.get("authorization") != f"Bearer {TOKEN}":
        await turned_away(403)(exchange)
        return
    office.asked.append((what, exchange.json))
    if what == "pull":
        given = office.give(
            exchange.json["batch_size"], exchange.json["visibility_timeout_ms"] / 1000
        )
        left = sum(letter.visible <= office.now for letter in office.waiting)
        result: Any = {
            "message_backlog_count": left,
            "messages": [_cloudflare_message(letter, receipt) for letter, receipt in given],
        }
    else:
        office.before_answers()
        acks = [office.take_away(one["lease_id"]) for one in exchange.json["acks"]]
        retries = [
            office.show_later(one["lease_id"], one["delay_seconds"])
            for one in exchange.json["retries"]
        ]
        result = {"ackCount": sum(acks), "retryCount": sum(retries), "warnings": {}}
    await exchange.answer(200, {"success": True, "errors": [], "messages": [], "result": result})


def _cloudflare_message(letter: Letter, receipt: str) -> dict[str, Any]:
    plain = letter.content_type == "text"
    return {
        "id": str(letter.number),
        "body": letter.body if plain else base64.b64encode(letter.body.encode()).decode(),
        "attempts": letter.attempts,
        "timestamp_ms": SENT_MS,
        "lease_id": receipt,
        "metadata": {"CF-Content-Type": letter.content_type},
    }


async def _as_amazon(office: PostOffice, exchange: Exchange) -> None:
    if exchange.headers.get("authorization") != _signature(exchange):
        await turned_away(403)(exchange)
        return
    asked, action = exchange.json, exchange.headers["x-amz-target"].removeprefix("AmazonSQS.")
    office.asked.append((action, asked))
    assert asked["QueueUrl"].endswith("/123456789012/pictures")
    if action == "ReceiveMessage":
        given = office.give(asked["MaxNumberOfMessages"], asked["VisibilityTimeout"])
        found = {"Messages": [_amazon_message(letter, receipt) for letter, receipt in given]}
        await exchange.answer(200, found if given else {})
        return
    office.before_answers()
    answer: dict[str, list[Any]] = {"Successful": [], "Failed": []}
    assert 1 <= len(asked["Entries"]) <= 10
    for entry in asked["Entries"]:
        receipt = entry["ReceiptHandle"]
        if action == "DeleteMessageBatch":
            taken = office.take_away(receipt)
        else:
            taken = office.show_later(receipt, entry["VisibilityTimeout"])
        failed = {"Code": "ReceiptHandleIsInvalid", "SenderFault": True}
        answer["Successful" if taken else "Failed"].append(
            {"Id": entry["Id"], **({} if taken else failed)}
        )
    await exchange.answer(200, answer)


def _amazon_message(letter: Letter, receipt: str) -> dict[str, Any]:
    about = {"ApproximateReceiveCount": str(letter.attempts), "SentTimestamp": str(SENT_MS)}
    return {
        "MessageId": str(letter.number),
        "ReceiptHandle": receipt,
        "Body": letter.body,
        "Attributes": about,
    }


def _signature(exchange: Exchange) -> str:
    """What Amazon's own library would have signed it with."""
    names = exchange.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    headers = {name: exchange.headers[name] for name in names}
    request = AWSRequest("POST", f"http://{exchange.headers['host']}/", headers, exchange.body)
    request.context["timestamp"] = exchange.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("key", SECRET), "sqs", "eu-central-1")
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    scope = auth.scope(request)
    signed = ";".join(names)
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={signature}"
