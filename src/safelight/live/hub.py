"""Fans an organization's feed out to the sockets of this process.

Each socket is a cursor: it holds the last seq it was sent and asks its room for what comes after.
There are no queues to overflow; whoever falls behind the room's short memory reads from the
database until it has caught up. A room learns of news from the bus, and looks for itself every
couple of seconds in case a notice was lost.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import takewhile
from typing import Any

import structlog

from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import AWAY, Database
from safelight.infra.history import Messages
from safelight.infra.queue.jobs import ACTIVITY

_BATCH = 500
_MEMORY = 2000
_LOOK_SECONDS = 2.0

Message = tuple[int, str]  # seq and the JSON text, encoded once for all sockets


class Room:
    """One organization's recent messages and the wish to hear of more."""

    def __init__(self, db: Database, messages: Messages, organization: str, position: int) -> None:
        self._db = db
        self._messages = messages
        self._organization = organization
        self._recent: deque[Message] = deque()
        self._floor = position  # every message after this one is in _recent
        self._position = position
        self._news = asyncio.Event()
        self._stale = asyncio.Event()
        self.visitors = 0

    def wake(self) -> None:
        self._stale.set()

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stale.wait(), _LOOK_SECONDS)
            self._stale.clear()
            try:
                await self._refresh()
            except AWAY as error:
                structlog.get_logger().warning("the live feed waits", error=str(error))
                await asyncio.sleep(1)

    async def _refresh(self) -> None:
        while rows := await self._read(self._position):
            self._recent.extend(rows)
            self._position = rows[-1][0]
            while len(self._recent) > _MEMORY:
                self._floor = self._recent.popleft()[0]
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def _read(self, after: int) -> list[Message]:
        rows = await activity.feed(
            self._db, self._organization, after=after, limit=_BATCH, types=self._messages.types
        )
        return [(row.seq, _text(self._messages.show(row))) for row in rows]

    async def after(self, position: int) -> list[Message]:
        """What comes after a position, waiting until there is something."""
        while True:
            news = self._news  # before looking, so that nothing arrives unnoticed in between
            if position < self._floor:
                messages = await self._read(position)
                if messages:
                    return messages
                position = self._floor  # everything up to there was of inner types
            if messages := self._tail(position):
                return messages
            await news.wait()

    def _tail(self, position: int) -> list[Message]:
        """From the newest back: with a thousand sockets most want only the last one."""
        newer = takewhile(lambda message: message[0] > position, reversed(self._recent))
        return list(newer)[::-1]


class Hub:
    def __init__(self, db: Database, bus: Bus, messages: Messages) -> None:
        self._db = db
        self._messages = messages
        self._bus = bus
        self._rooms: dict[str, tuple[Room, asyncio.Task[None]]] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        unsubscribe = self._bus.subscribe(ACTIVITY, self._on_news, resync=self._wake_all)
        try:
            yield
        finally:
            unsubscribe()
            for _, task in self._rooms.values():
                task.cancel()

    def _on_news(self, organization: str) -> None:
        if organization in self._rooms:
            self._rooms[organization][0].wake()

    def _wake_all(self) -> None:
        for room, _ in self._rooms.values():
            room.wake()

    @asynccontextmanager
    async def room(self, organization: str, newest: int) -> AsyncIterator[Room]:
        if organization not in self._rooms:
            room = Room(self._db, self._messages, organization, newest)
            self._rooms[organization] = (room, asyncio.create_task(room.run()))
        room, task = self._rooms[organization]
        room.visitors += 1
        try:
            yield room
        finally:
            room.visitors -= 1
            if room.visitors == 0:
                task.cancel()
                del self._rooms[organization]


def _text(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))
