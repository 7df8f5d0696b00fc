"""Connections to lend, one borrower each.

Who may borrow, and when, is decided before (turns.py): whoever comes here has a turn, so that there
is nothing left to wait for but a new connection. The driver's own pool decides it again, and wraps,
times and checks every loan for as long as a short statement takes; that is why this one is ours.

Guarantees: the one given back last is lent first, so that few stay in use. One that has ended is
not lent. One that nobody has wanted for minutes is closed, and so is one that has served for very
long, since a backend keeps what it has learnt.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg

_UNWANTED_SECONDS = 300.0
_MOST_LOANS = 50_000
_CLOSE_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Loan:
    connection: Any
    count: int = 0
    since: float = 0.0  # when it came back


class Pool:
    def __init__(
        self, connect: Callable[[], Awaitable[Any]], unwanted: float = _UNWANTED_SECONDS
    ) -> None:
        self._connect = connect
        self._unwanted = unwanted
        self._idle: deque[_Loan] = deque()  # the one given back last is the last
        self._lent: dict[Any, _Loan] = {}
        self._closed = False
        self._returned = asyncio.Event()
        self._tidying: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle) + len(self._lent)

    def at_hand(self) -> Any | None:
        """Lends one that is there."""
        while self._idle:
            loan = self._idle.pop()
            if not loan.connection.is_closed():
                return self._lend(loan)
        return None

    async def another(self) -> Any:
        """Lends a new one."""
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        return self._lend(_Loan(await self._connect()))

    async def until_one_returns(self, seconds: float) -> None:
        """Or until some time has passed."""
        self._returned.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._returned.wait()

    def _lend(self, loan: _Loan) -> Any:
        loan.count += 1
        self._lent[loan.connection] = loan
        return loan.connection

    def give_back(self, connection: Any) -> None:
        loan = self._lent.pop(connection)
        self._returned.set()
        if self._closed or loan.count >= _MOST_LOANS:
            end(connection)
        elif not connection.is_closed():
            loan.since = time.monotonic()
            self._idle.append(loan)
            self._tidy_later()

    def end_the_idle(self) -> None:
        while self._idle:
            end(self._idle.pop().connection)

    async def close(self) -> None:
        """Waits for those that are lent. `terminate` ends what is left of them."""
        self._closed = True
        self._tidy_no_more()
        while self._idle:
            await _close(self._idle.pop().connection)
        while self._lent:
            self._returned.clear()
            await self._returned.wait()

    def terminate(self) -> None:
        self._closed = True
        self._tidy_no_more()
        self.end_the_idle()
        for connection in list(self._lent):
            end(connection)

    def _tidy_later(self) -> None:
        if self._tidying is None:
            loop = asyncio.get_running_loop()
            self._tidying = loop.call_later(self._unwanted, self._tidy)

    def _tidy_no_more(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None

    def _tidy(self) -> None:
        self._tidying = None
        until = time.monotonic() - self._unwanted
        while self._idle and self._idle[0].since <= until:
            end(self._idle.popleft().connection)
        if self._idle:
            self._tidy_later()


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except Exception:  # noqa: BLE001 - it is of no more use to anybody
        end(connection)


def end(connection: Any) -> None:
    """At once; the driver may have noticed its end before us, and say so."""
    with suppress(Exception):
        connection.terminate()
