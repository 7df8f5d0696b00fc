"""A classifier whose answer is a function of the bytes, and which fails or waits when told to."""

import asyncio
import hashlib
import os
from dataclasses import dataclass, field
from typing import Literal

from safelight.classification.base import (
    ChildDied,
    Drawing,
    ModelAway,
    ModelError,
    Prediction,
    Undecodable,
)

BROKEN = b"broken"
FAILURES = {
    "fail": ModelError("The model is out of order."),
    "give up": ModelError("The model is out of order for good."),
    "die": ChildDied(),
    "away": ModelAway("The model is on holiday."),
}

Mood = Literal["answer", "wait", "fail", "give up", "die", "away"]


def label_of(content: bytes) -> str:
    return f"LABEL {hashlib.sha256(content).hexdigest()[:10].upper()}"


def drawing_of(content: bytes) -> Drawing:
    digest = hashlib.sha256(content).hexdigest()
    return Drawing(None, b"small " + content[:20], f"#{digest[:6]}", digest)


@dataclass
class Scripted:
    """In the mood to wait, a call is put into `waiting`; what its future gets is the mood it goes
    on with."""

    remote: bool = False
    mood: Mood = "answer"
    asked: list[bytes] = field(default_factory=list)
    waiting: "asyncio.Queue[asyncio.Future[Mood]]" = field(default_factory=asyncio.Queue)
    name: str = "scripted"
    model: str = "scripted"
    model_hash: str | None = None
    dimensions: int = 0

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def classify(self, data: bytes | int, **_: bool) -> Prediction:
        if isinstance(data, int):
            data = os.pread(data, os.fstat(data).st_size, 0)
        self.asked.append(data)
        mood = self.mood
        if mood == "wait":
            gate: asyncio.Future[Mood] = asyncio.get_running_loop().create_future()
            self.waiting.put_nowait(gate)
            mood = await gate
        if mood in FAILURES:
            raise FAILURES[mood]
        if data.startswith(BROKEN):
            raise Undecodable
        labels = ((label_of(data), 0.5), ("OTHER", 0.25))
        return Prediction(label_of(data), 0.5, drawing_of(data), labels)

    async def draw(self, data: bytes | int, **_: bool) -> Drawing:
        found = await self.classify(data)
        return found.drawing
