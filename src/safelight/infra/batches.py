"""What is ready together goes to the database together.

    stored = await batches.add(organization, item)

The first of an organization is sent at once. What comes while it is under way waits for its end,
and then goes as one: a batch is as large as the database is slow, and nobody waits for company.

Guarantees
- Each item has an answer of its own. A batch that the server refused has changed nothing; each of
  its items is then sent by itself, so that what is wrong with one is its own trouble.
- Organizations do not wait for each other.

Gap: where the answer is lost, nobody knows what became of any of them; that is every item's error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import asyncpg

from safelight.infra.db import AWAY, LOST

T = TypeVar("T")
R = TypeVar("R")
Send = Callable[[str, Sequence[T]], Awaitable[Sequence[R]]]
_MOST = 32  # how long the organization's feed is locked by one statement has an end


class Batches(Generic[T, R]):
    """`send` writes items of one organization, all or none, and answers each in their order."""

    def __init__(self, send: Send[T, R], most: int = _MOST) -> None:
        self._send = send
        self._most = most
        self._waiting: dict[str, list[tuple[T, asyncio.Future[R]]]] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def add(self, organization: str, item: T) -> R:
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(organization, []).append((item, answer))
        if organization not in self._sending:
            self._sending[organization] = asyncio.create_task(self._send_all(organization))
        return await answer

    async def _send_all(self, organization: str) -> None:
        try:
            while waiting := self._waiting.pop(organization, None):
                batch, rest = waiting[: self._most], waiting[self._most :]
                if rest:
                    self._waiting[organization] = rest
                await self._send_batch(organization, batch)
        finally:  # also where the loop ends under it
            del self._sending[organization]
            for _, answer in self._waiting.pop(organization, ()):
                answer.cancel()

    async def _send_batch(
        self, organization: str, batch: list[tuple[T, "asyncio.Future[R]"]]
    ) -> None:
        try:
            answers = await self._send(organization, [item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it is for those who wait for an answer
            if len(batch) > 1 and _refused(error):
                for each in batch:
                    await self._send_batch(organization, [each])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():  # whoever asked may have been cancelled
                future.set_result(answer)


def _refused(error: Exception) -> bool:
    """By the server in words of its own, or here before it was sent: nothing of it was done."""
    if isinstance(error, asyncpg.PostgresError):
        return not isinstance(error, LOST)
    return not isinstance(error, AWAY)
