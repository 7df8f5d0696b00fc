"""Turns that organizations share: who brings a thousand things waits behind itself, not in front of
the others.

Whose work it is goes with the task that does it: a guard says so for a request (`whose.set`), the
worker for a job. Until somebody is known it is their address's; what nobody has claimed is
Safelight's own, ''.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

whose: ContextVar[str] = ContextVar("whose", default="")


class Turns:
    """So many at once. The next turn goes to the organization that has the fewest; of equals, to
    the one that waited for longest; within one, to who came first.

    `guests`, where turns are long: there is one more for an organization that has none, while
    another has several. So nobody can take all of them, and one organization alone has them all."""

    def __init__(self, at_once: int, *, guests: bool = False) -> None:
        self._free = at_once
        self._guests = guests
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # in the order of their turns

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        mine = await self.take()
        try:
            yield
        finally:
            self.give(mine)

    def at_hand(self) -> str | None:
        """A turn that need not be waited for: whose it is, for `give`."""
        mine = whose.get()
        if mine in self._waiting or not self._may(mine):
            return None
        self._begin(mine)
        return mine

    async def take(self) -> str:
        """Answers whose turn it is, for `give`."""
        if (at_once := self.at_hand()) is not None:
            return at_once
        mine = whose.get()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(mine, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(mine)  # it came in the same moment
            raise
        return mine

    def give(self, mine: str) -> None:
        self._free += 1
        self._held[mine] -= 1
        if not self._held[mine]:
            del self._held[mine]
        while self._waiting and self._may(first := min(self._waiting, key=self._held.__getitem__)):
            self._next(first)

    def _next(self, organization: str) -> None:
        line = self._waiting.pop(organization)
        turn = line.popleft()
        if line:
            self._waiting[organization] = line  # at the end of the round
        if not turn.done():  # else nobody waits for it any more
            self._begin(organization)
            turn.set_result(None)

    def _may(self, organization: str) -> bool:
        if self._free or not self._guests:
            return self._free > 0
        return not self._held[organization] and max(self._held.values(), default=0) > 1

    def _begin(self, organization: str) -> None:
        self._free -= 1
        self._held[organization] += 1
