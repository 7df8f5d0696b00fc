"""What happens, as it happens: a socket, and the same messages by polling.

Each socket is a cursor: it holds the last seq it was sent and asks its organization's room for
what comes after. There are no queues to overflow; whoever falls behind the room's short memory
reads from the database until it has caught up. A room learns of news from the bus, and looks for
itself every couple of seconds in case an announcement was lost. A read that fails, whatever the
reason, is tried again; the room ends with its last visitor only.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from safelight.accounts.access import Role, authorize
from safelight.accounts.guard import Access, AsViewer, identify
from safelight.errors import RateLimited, SafelightError
from safelight.http.described import Described, PageOf
from safelight.http.frame import DatabaseDep, ReadsDep, provided
from safelight.http.paging import DEFAULT_LIMIT, LARGEST, Limit
from safelight.infra import feed
from safelight.infra.bus import Bus
from safelight.infra.db import AWAY, Database
from safelight.infra.queue.jobs import ACTIVITY
from safelight.live.answers import MessageAnswer
from safelight.live.messages import Messages, out_of_bounds

router = APIRouter(tags=["live"], route_class=Described)

Seq = Annotated[int, Query(ge=0, le=LARGEST, description="The last seq you have seen.")]
CREDENTIAL_ENDED, TOO_SLOW = 4401, 1013
_SEND_SECONDS = 10.0
_CHECK_SECONDS = 20.0
_BATCH = 500
_MEMORY = 2000
_LOOK_SECONDS = 2.0
_PAUSE_SECONDS = 1.0
_SEAT_SECONDS = 30


class NoSeat(RateLimited):
    """Too many live sockets are open, yours or your organization's. Close some, or ask for
    `activity` now and then instead."""


Message = tuple[int, str]  # seq and the JSON text, encoded once for all sockets


@dataclass(frozen=True, slots=True)
class Seats:
    """How many sockets one process has for whom. Each costs memory, and a look at every message."""

    per_caller: int
    per_organization: int


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
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._stale.wait()
            self._stale.clear()
            try:
                await self._refresh()
            except Exception as error:  # noqa: BLE001 - or every socket here would wait for ever
                structlog.get_logger().warning("the live feed waits", error=repr(error))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _refresh(self) -> None:
        while rows := await self._read(self._position):
            self._recent.extend(rows)
            self._position = rows[-1][0]
            while len(self._recent) > _MEMORY:
                self._floor = self._recent.popleft()[0]
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def _read(self, after: int) -> list[Message]:
        rows = await feed.lines(
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
    """Listens to the bus while anybody listens to it."""

    def __init__(self, db: Database, bus: Bus, messages: Messages, seats: Seats) -> None:
        self._db = db
        self._messages = messages
        self._bus = bus
        self._seats = seats
        self._taken: Counter[tuple[str, ...]] = Counter()
        self._rooms: dict[str, tuple[Room, asyncio.Task[None]]] = {}
        self._unsubscribe: Callable[[], None] = _nothing

    def close(self) -> None:
        self._unsubscribe()
        for _, task in self._rooms.values():
            task.cancel()

    def _on_news(self, organization: str) -> None:
        if organization in self._rooms:
            self._rooms[organization][0].wake()

    def _wake_all(self) -> None:
        for room, _ in self._rooms.values():
            room.wake()

    @contextmanager
    def seat(self, access: Access) -> Iterator[None]:
        """Taken before the upgrade, so that who gets none is told so over HTTP."""
        caller, organization = (access.caller.kind, access.caller.id), (access.organization,)
        if (
            self._taken[caller] >= self._seats.per_caller
            or self._taken[organization] >= self._seats.per_organization
        ):
            raise NoSeat(retry_after=_SEAT_SECONDS)
        self._taken.update([caller, organization])
        try:
            yield
        finally:
            self._taken.subtract([caller, organization])
            self._taken = +self._taken  # without those who have none

    @asynccontextmanager
    async def room(self, organization: str, newest: int) -> AsyncIterator[Room]:
        if not self._rooms:
            self._unsubscribe = self._bus.subscribe(ACTIVITY, self._on_news, resync=self._wake_all)
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
            if not self._rooms:
                self._unsubscribe()


def _nothing() -> None:
    """There is no subscription to end."""


def _text(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


@router.get(
    "/api/organizations/{org}/activity",
    summary="The live messages, by polling",
    response_model=PageOf[MessageAnswer],
)
async def poll(
    access: AsViewer,
    db: ReadsDep,
    messages: Annotated[Messages, provided(Messages)],
    after: Seq | None = None,
    limit: Limit = DEFAULT_LIMIT,
    types: Annotated[str | None, Query(description="Comma list; `*` adds the inner ones.")] = None,
) -> dict[str, Any]:
    organization = access.organization
    chosen: list[str] | None = messages.types
    show = messages.show
    if types is not None:
        asked = [part.strip() for part in types.split(",") if part.strip()]
        chosen = messages.choose(asked, admin=_is_admin(access))
        show = messages.show_inner if chosen is None or set(chosen) - set(messages.types) else show
    floor, newest = await feed.bounds(db, organization)
    notice = out_of_bounds(after, floor, newest)
    position = max(after or 0, floor)
    rows = await feed.lines(db, organization, after=position, limit=limit + 1, types=chosen)
    more = len(rows) > limit
    return {
        "items": [*filter(None, [notice]), *map(show, rows[:limit])],
        "nextCursor": str(rows[limit - 1].seq) if more else None,
    }


@router.websocket("/api/organizations/{org}/live")
async def live(
    socket: WebSocket,
    access: AsViewer,
    db: DatabaseDep,
    hub: Annotated[Hub, provided(Hub)],
    after: Seq | None = None,
) -> None:
    with hub.seat(access):
        floor, newest = await feed.bounds(db, access.organization)
        await socket.accept()
        async with hub.room(access.organization, newest) as room:
            position = newest if after is None else after
            if notice := out_of_bounds(after, floor, newest):
                await socket.send_text(json.dumps(notice))
                position = notice["seq"]
            await _until_first(
                _send(socket, room, position), _read(socket), _recheck(socket, access.organization)
            )


async def _send(socket: WebSocket, room: Room, position: int) -> None:
    while True:
        for seq, text in await room.after(position):
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await socket.send_text(text)
            except TimeoutError:
                # The goodbye may not get through either; returning cuts the connection.
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await socket.close(TOO_SLOW, "too slow")
                return
            position = seq


async def _read(socket: WebSocket) -> None:
    """Nothing is expected from clients; reading is how a goodbye is noticed."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _recheck(socket: WebSocket, organization: str) -> None:
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            authorize(await identify(socket), organization, Role.VIEWER)
        except SafelightError as error:
            if error.status < 500:  # noqa: PLR2004 - a database that is away ends no credential
                await socket.close(CREDENTIAL_ENDED, "credential ended")
                return
        except AWAY as error:
            structlog.get_logger().warning("a credential was not checked", error=repr(error))


async def _until_first(*work: Any) -> None:
    """Runs all until one ends, then ends the others; a client that left is no error."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        with suppress(WebSocketDisconnect, RuntimeError):
            task.result()


def _is_admin(access: Access) -> bool:
    return access.caller.organizations[access.organization] >= Role.ADMIN
