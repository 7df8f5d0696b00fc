"""Whoever comes to a password: few at once, since each hash takes 64 MiB and four cores, and nobody
in front of everybody else.

- One who comes (an address, or a user whom we know) has two turns at once and a short line behind
  them. The next turn goes to who has the fewest, so a stranger waits for one turn of a crowd that
  comes from elsewhere, however many they are.
- Two turns are kept from strangers, and those we know go first: whoever is signed in, and browsers
  that have signed this user in before.
- Only so many strangers wait. When they do, the last of the longest line makes room for one whose
  line is shorter: to keep a stranger out takes as many addresses.

Whoever is sent away has used up no attempt, and nothing was looked up. What is done in a turn has
its own share of the database's connections (infra/turns.py), not that of everybody's credentials.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from safelight.errors import RateLimited
from safelight.infra.turns import whose

AT_ONCE = 6
KEPT = 2  # of those, from strangers
EACH = 2
LINE = 10
MOST_WAITING = 36
_AGAIN_SECONDS = 3


class SignInCrowded(RateLimited):
    """Many people sign in at this moment. Try again in a few seconds."""


class Comer(NamedTuple):
    name: str
    known: bool


class Crowd:
    def __init__(self) -> None:
        self._held: Counter[Comer] = Counter()
        self._lines: dict[Comer, deque[asyncio.Future[None]]] = {}  # in the order of their turns

    @asynccontextmanager
    async def turn(self, name: str, *, known: bool) -> AsyncIterator[None]:
        """Around everything that leads to a hash; raises when too many are at it."""
        comer = Comer(name, known)
        await self._take(comer)
        share = whose.set(name)
        try:
            yield
        finally:
            whose.reset(share)
            self._give(comer)

    async def _take(self, comer: Comer) -> None:
        if comer not in self._lines and self._may(comer):
            self._held[comer] += 1
            return
        self._make_room(comer)
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(comer, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._lines.get(comer, ()):
                self._leave(comer, turn)
            elif not turn.cancelled() and turn.exception() is None:
                self._give(comer)  # it came in the same moment
            raise

    def _give(self, comer: Comer) -> None:
        self._held[comer] -= 1
        if not self._held[comer]:
            del self._held[comer]
        while ready := [each for each in self._lines if self._may(each)]:
            first = min(ready, key=lambda each: (not each.known, self._held[each]))
            line = self._lines.pop(first)
            turn = line.popleft()
            if line:
                self._lines[first] = line  # at the end of the round
            if not turn.done():  # else nobody waits for it any more
                self._held[first] += 1
                turn.set_result(None)

    def _may(self, comer: Comer) -> bool:
        if self._held[comer] >= EACH or self._held.total() >= AT_ONCE:
            return False
        strangers = sum(turns for each, turns in self._held.items() if not each.known)
        return comer.known or strangers < AT_ONCE - KEPT

    def _make_room(self, comer: Comer) -> None:
        """Raises where there is none. Those we know are not many, and have a line each."""
        own = len(self._lines.get(comer, ()))
        if own >= LINE:
            raise SignInCrowded(retry_after=_AGAIN_SECONDS)
        lines = {each: len(line) for each, line in self._lines.items() if not each.known}
        if comer.known or sum(lines.values()) < MOST_WAITING:
            return
        longest = max(lines, key=lines.__getitem__)
        if lines[longest] <= own + 1:
            raise SignInCrowded(retry_after=_AGAIN_SECONDS)
        last = self._lines[longest][-1]
        self._leave(longest, last)
        if not last.done():
            last.set_exception(SignInCrowded(retry_after=_AGAIN_SECONDS))

    def _leave(self, comer: Comer, turn: "asyncio.Future[None]") -> None:
        self._lines[comer].remove(turn)
        if not self._lines[comer]:
            del self._lines[comer]
