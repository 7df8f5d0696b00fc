"""News between the parts of a process, and between processes.

Guarantees
- `announce` reaches subscribers in this process before it returns, and never raises.
- Other processes hear it by NOTIFY, many announcements in one statement every few milliseconds. A
  process that hears no other process for a while stops sending: alone, news costs nothing.
- A lost LISTEN connection is noticed within a second or two and rebuilt; whenever listening begins,
  subscribers are asked to resync, since news may have been missed.
- What the database announces itself, by a trigger, commits with its cause, and `behind` says how
  far it was heard: an answer on the LISTEN connection comes after all news of what had been
  committed when it was asked for.

Gaps
- All other news is a hint, never the truth. What is announced just before a crash, or while the
  database is away, is not heard elsewhere; whoever must not miss it also looks by itself now and
  then.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from safelight.infra.connecting import Limits, connect
from safelight.infra.db import Database, be_patient
from safelight.infra.turns import whose

CONNECTIONS = 1  # beside the pool
_CHANNEL = "safelight"
_GATHER_SECONDS = 0.008
_PING_SECONDS = 0.5
_STOP_SECONDS = 1.0
_ALONE_SECONDS = 2.0  # nobody has answered our greeting
_LIMITS = Limits(connect=5, command=2)
_RECONNECT_SECONDS = 0.25
_GREETING_SECONDS = 30.0
_FORGET_SECONDS = 90.0  # three greetings unheard
_PER_MESSAGE = 50  # ids are short; a NOTIFY carries at most 8000 bytes
_OURS = "bus"
_DATABASE = ""  # the origin of what a trigger announces

log = structlog.get_logger()

Callback = Callable[[str], None]
Resync = Callable[[], None]
News = tuple[str, str]


class Bus:
    """Belongs to one event loop. Works without `start`, then only as a sender."""

    def __init__(self, db: Database, origin: str) -> None:
        self._db = db
        self._origin = origin
        self._subscribers: dict[str, dict[object, tuple[Callback, Resync | None]]] = {}
        self._pending: dict[News, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._company_until = math.inf
        self._greeted = 0.0
        self._heard_all = -math.inf

    async def start(self, patience: float = 5.0) -> None:
        """Returns once it listens, or after `patience` seconds in any case."""
        self._listening = asyncio.create_task(self._listen_for_ever())
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):  # wait_for could lose a cancellation here
                await self._up.wait()

    async def stop(self) -> None:
        """Sends what is still to be sent, if that is quick."""
        if self._sending:
            await asyncio.wait([self._sending], timeout=_STOP_SECONDS)
        if self._listening:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def subscribe(
        self, topic: str, callback: Callback, *, resync: Resync | None = None
    ) -> Callable[[], None]:
        """`callback` gets each detail, on the loop, and must be quick. Returns how to stop it."""
        token = object()
        self._subscribers.setdefault(topic, {})[token] = (callback, resync)
        return lambda: self._subscribers[topic].pop(token, None) and None

    def listeners(self, topic: str) -> int:
        return len(self._subscribers.get(topic, {}))

    def behind(self) -> float:
        """For how many seconds the database's own news may have gone unheard: what was committed
        before then has been delivered here. Infinite while nobody listens."""
        return time.monotonic() - self._heard_all

    def announce(self, topic: str, detail: str) -> None:
        self._deliver(topic, detail)
        if time.monotonic() < self._company_until:
            with suppress(RuntimeError):  # no loop runs here: nobody waits for this process either
                self._send_soon(topic, detail)

    def _deliver(self, topic: str, detail: str) -> None:
        for callback, _ in list(self._subscribers.get(topic, {}).values()):
            _call(callback, detail)

    def _send_soon(self, topic: str, detail: str) -> None:
        self._pending[topic, detail] = None
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        """For everybody: whoever announced something first waits for none of this, and the others
        do not wait in its line."""
        whose.set("")
        be_patient()
        try:
            while self._pending:
                await asyncio.sleep(_GATHER_SECONDS)
                batch = list(self._pending)[:_PER_MESSAGE]
                for news in batch:
                    del self._pending[news]
                message = json.dumps([self._origin, batch], separators=(",", ":"))
                await self._db.execute("SELECT pg_notify($1, $2)", _CHANNEL, message)
        except Exception as error:  # noqa: BLE001 - news is best effort
            log.warning("bus.unsent", error=repr(error))
        finally:
            self._sending = None

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - whatever it was, listening goes on
                log.warning("bus.lost", error=repr(error))
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        """Ends, or raises, when the connection is lost."""
        connection = await connect(self._db.address.direct, _LIMITS, command=_LIMITS.command)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            asked = time.monotonic()
            await connection.add_listener(_CHANNEL, self._heard)
            self._begin()
            self._heard_all = asked
            while not lost.is_set():
                await self._keep(connection, lost)
        finally:
            self._heard_all = -math.inf
            connection.terminate()

    def _begin(self) -> None:
        self._greeted = 0.0
        self._company_until = time.monotonic() + _ALONE_SECONDS
        if self._up.is_set():
            log.info("bus.rebuilt")
        for subscribers in list(self._subscribers.values()):
            for _, resync in list(subscribers.values()):
                if resync:
                    _call(resync)
        self._up.set()

    async def _keep(self, connection: Any, lost: asyncio.Event) -> None:
        if time.monotonic() - self._greeted > _GREETING_SECONDS:
            self._greeted = time.monotonic()
            self._send_soon(_OURS, "hello")
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await lost.wait()
        except TimeoutError:
            asked = time.monotonic()
            await connection.execute("SELECT 1")
            self._heard_all = asked

    def _heard(self, _connection: Any, _pid: int, _channel: str, message: object) -> None:
        try:
            origin, batch = json.loads(str(message))
        except ValueError:
            return  # anyone with access to the database may shout
        if origin == self._origin:
            return
        if origin != _DATABASE:
            self._company_until = time.monotonic() + _FORGET_SECONDS
        for topic, detail in batch:
            if topic != _OURS:
                self._deliver(topic, detail)
            elif detail == "hello":
                self._send_soon(_OURS, "here")


def _call(callback: Callable[..., None], *details: str) -> None:
    try:
        callback(*details)
    except Exception:
        log.exception("bus.subscriber_failed")
