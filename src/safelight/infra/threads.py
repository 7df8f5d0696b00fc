"""Threads for what blocks, so that the event loop does not.

    answer = await threads.run(work, argument)

Guarantees: a call that is cancelled ends only after its work, which may hold files; nothing runs
behind anybody's back. No more threads than are needed at once, and never more than `most`; beyond
that, first come, first served.

Why not the standard library's executor: a hop there and back is most of what a small file costs on
the event loop. Here it takes one future, and work that ends together is told together. Of one event
loop at a time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Call(Generic[T]):
    """Work, and in the end what came of it. `news` is for whoever waits at the moment."""

    def __init__(self, work: Callable[[], T], news: "asyncio.Future[None]") -> None:
        self._work = work
        self._error: BaseException | None = None
        self._result: T
        self.news = news
        self.over = False

    def do(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
            self._error = error

    def end(self) -> None:
        self.over = True
        if not self.news.done():
            self.news.set_result(None)

    def outcome(self) -> T:
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # it holds this frame, and with it all that the work held


class Threads:
    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._threads: list[Thread] = []
        self._waiting: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._under_way = 0
        self._ended: deque[_Call[Any]] = deque()
        self._told = False
        self._closed = False

    def close(self) -> None:
        """Returns when all that was asked for is done."""
        self._closed = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        call = _Call(partial(work, *args, **kwargs), loop.create_future())
        self._begin(call, loop)
        try:
            await call.news
        except asyncio.CancelledError:
            while not call.over:
                call.news = loop.create_future()
                with suppress(asyncio.CancelledError):
                    await call.news
            raise
        return call.outcome()

    def _begin(self, call: _Call[Any], loop: asyncio.AbstractEventLoop) -> None:
        if self._closed:
            raise RuntimeError(f"The threads {self._name} have ended.")
        self._loop = loop
        self._under_way += 1
        self._waiting.put(call)
        if len(self._threads) < min(self._under_way, self._most):
            thread = Thread(target=self._serve, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self) -> None:
        while (call := self._waiting.get()) is not None:
            call.do()
            self._ended.append(call)
            del call  # nobody keeps it open while there is nothing to do
            if not self._told:  # else whoever was told sees this one as well
                self._told = True
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._told = False
        while self._ended:
            self._under_way -= 1
            self._ended.popleft().end()
