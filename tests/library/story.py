"""What happened in one organization, and the words events come in."""

import asyncio
import hashlib
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote

from library.scripted import Mood
from safelight.infra.injected import ImageId, RandomIds, iso
from safelight.infra.queue.jobs import Job, Verdict
from safelight.ingest.lifecycle import Image

numbers = count(1)


class CountedIds(RandomIds):
    """Image ids that a replay finds in the same order, although not in the order of their making."""

    def __init__(self) -> None:
        self._made = 0

    def image(self, _: int) -> ImageId:
        self._made += 1
        scrambled = hashlib.sha256(str(self._made).encode()).hexdigest()[:8]
        return ImageId(f"img_2027-01-01_{scrambled}{next(numbers):08}")


@dataclass
class Thought:
    """A run that is in the model's hands."""

    job: Job[Any]
    task: "asyncio.Task[Verdict]"
    gate: "asyncio.Future[Mood]"


@dataclass
class Notice:
    """What a telling bucket has to say: the body, and whether it was ever sent."""

    body: dict[str, Any]
    sent: bool = False


@dataclass
class Story:
    """What was done in one organization: all that the end is judged by."""

    organization: str
    images: list[Image] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)  # by marker
    deletes: dict[str, int] = field(default_factory=dict)  # name → images received before it
    damaged: set[str] = field(default_factory=set)  # images whose file was taken away
    deletes_in_vain: dict[str, int] = field(default_factory=dict)  # which may have had no effect
    meddled: set[str] = field(default_factory=set)  # names that others changed in the bucket
    rows: dict[str, str] = field(default_factory=dict)  # name → marker, as last seen
    notices: list[Notice] = field(default_factory=list)
    held: list[Job[Any]] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    deliveries: int = 0  # jobs made to deliver what is not an own event for the first time
    dialect: str = "r2"
    sequence: int = 0
    forgotten: bool = False  # events may have been removed


def outside(
    dialect: str, key: str, time: int, etag: str | None, sequence: int, *, deleted: bool
) -> dict[str, Any]:
    """An event as a bucket tells it: `r2` to the millisecond, `seconds` to the second, `s3` with a
    sequencer as well."""
    when = iso(time) if dialect == "r2" else f"{iso(time)[:-5]}Z"
    named = {} if etag is None else {"eTag": etag}
    if dialect != "s3":
        action = "DeleteObject" if deleted else "PutObject"
        return {"action": action, "object": {"key": key, **named}, "eventTime": when}
    about = {"key": quote(key, safe="/"), "sequencer": f"{sequence:016X}", **named}
    name = "ObjectRemoved:Delete" if deleted else "ObjectCreated:Put"
    return {"eventSource": "aws:s3", "eventName": name, "eventTime": when, "s3": {"object": about}}
