"""What is ready together goes together; whoever is alone goes at once."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from safelight.errors import Unavailable
from safelight.infra.batches import Batches
from safelight.infra.failpoints import FailpointError

REFUSED = asyncpg.UniqueViolationError("there is one")
LOST = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")


class Database:
    """Each statement stays under way until it is told how it ends. What it answers is told apart
    from what it was asked."""

    def __init__(self, most: int = 32) -> None:
        self.batches: Batches[int, str] = Batches(self._send, most)
        self.sent: list[tuple[str, list[int]]] = []
        self.bad: dict[int, Exception] = {}  # what a statement with that in it ends with
        self.done: list[int] = []
        self._under_way: dict[str, asyncio.Event] = {}

    async def _send(self, organization: str, items: Sequence[int]) -> list[str]:
        self.sent.append((organization, list(items)))
        end = self._under_way[organization] = asyncio.Event()
        await end.wait()
        for item in items:
            if error := self.bad.get(item):
                raise error
        self.done += items
        return [f"{organization} {item}" for item in items]

    async def bring(self, *items: int, organization: str = "acme") -> "list[asyncio.Task[str]]":
        made = [asyncio.create_task(self.batches.add(organization, item)) for item in items]
        await settled()
        return made

    async def end(self, organization: str = "acme") -> None:
        """The statement that is under way."""
        self._under_way[organization].set()
        await settled()

    async def end_all(self) -> None:
        while self.batches._sending:
            for organization in list(self.batches._sending):
                await self.end(organization)

    def check_that_nothing_is_left(self) -> None:
        assert (self.batches._waiting, self.batches._sending) == ({}, {})


async def settled() -> None:
    """Everybody has gone on as far as they can without anything from outside."""
    for _ in range(8):
        await asyncio.sleep(0)


async def test_the_first_goes_at_once_and_what_comes_meanwhile_as_one() -> None:
    database = Database()
    first = await database.bring(1)
    assert database.sent == [("acme", [1])]
    rest = await database.bring(2, 3) + await database.bring(4)
    assert len(database.sent) == 1, "nobody is sent beside it"
    await database.end()
    assert database.sent[1:] == [("acme", [2, 3, 4])]
    later = await database.bring(5)
    await database.end_all()
    assert await asyncio.gather(*first, *rest, *later) == [f"acme {n}" for n in range(1, 6)]
    assert database.sent[2:] == [("acme", [5])]
    database.check_that_nothing_is_left()
    again = await database.bring(6)
    assert database.sent[3:] == [("acme", [6])], "who is alone again goes at once again"
    await database.end_all()
    assert await again[0] == "acme 6"
    database.check_that_nothing_is_left()


async def test_a_batch_has_an_end_and_the_rest_keeps_its_order() -> None:
    database = Database(most=3)
    tasks = await database.bring(*range(8))
    await database.end()
    more = await database.bring(8)
    await database.end_all()
    assert [items for _, items in database.sent] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert await asyncio.gather(*tasks, *more) == [f"acme {n}" for n in range(9)]
    database.check_that_nothing_is_left()


@pytest.mark.parametrize("error", [REFUSED, FailpointError("here"), ValueError("NUL in a text")])
async def test_what_was_refused_goes_one_by_one_and_one_hears_of_it(error: Exception) -> None:
    """Refused by the server, or before it was sent: nothing of it was done."""
    database = Database()
    database.bad = {3: error}
    tasks = await database.bring(1, 2, 3, 4)
    later = await database.bring(5)
    await database.end_all()
    answers = await asyncio.gather(*tasks, *later, return_exceptions=True)
    assert answers == ["acme 1", "acme 2", error, "acme 4", "acme 5"]
    assert [items for _, items in database.sent] == [[1, 2, 3, 4], [1], [2], [3], [4], [5]]
    assert sorted(database.done) == [1, 2, 4, 5], "each once"
    database.check_that_nothing_is_left()


@pytest.mark.parametrize("error", [LOST, TimeoutError(), Unavailable(), OSError("no route")])
async def test_a_lost_answer_is_everybodys_error(error: Exception) -> None:
    """It may have happened: nobody sends it a second time."""
    database = Database()
    database.bad = {2: error}
    tasks = await database.bring(1) + await database.bring(2, 3)
    later: list[asyncio.Task[str]] = []
    await database.end()
    later += await database.bring(4)
    await database.end_all()
    answers = await asyncio.gather(*tasks, *later, return_exceptions=True)
    assert answers == ["acme 1", error, error, "acme 4"], "those behind it go on"
    assert [items for _, items in database.sent] == [[1], [2, 3], [4]]
    database.check_that_nothing_is_left()


async def test_one_alone_that_is_refused_is_not_sent_again() -> None:
    database = Database()
    database.bad = {1: REFUSED}
    [task] = await database.bring(1)
    await database.end_all()
    with pytest.raises(asyncpg.UniqueViolationError):
        await task
    assert len(database.sent) == 1


async def test_organizations_do_not_wait_for_each_other() -> None:
    database = Database()
    slow = await database.bring(1, 2, organization="whale")
    quick = await database.bring(3, organization="shrimp")
    assert database.sent == [("whale", [1, 2]), ("shrimp", [3])]
    await database.end("shrimp")
    assert await quick[0] == "shrimp 3"
    assert not slow[0].done()
    await database.end_all()
    assert await asyncio.gather(*slow) == ["whale 1", "whale 2"]
    database.check_that_nothing_is_left()


async def test_who_stops_waiting_harms_nobody() -> None:
    """Neither who brought the first, whose statement goes on, nor one of those behind it."""
    database = Database()
    database.bad = {4: REFUSED}
    [first] = await database.bring(1)
    rest = await database.bring(2, 3, 4)
    for gone in (first, rest[1]):
        gone.cancel()
    await database.end_all()
    answers = await asyncio.gather(first, *rest, return_exceptions=True)
    assert [type(answers[0]), type(answers[2])] == [asyncio.CancelledError] * 2
    assert (answers[1], answers[3]) == ("acme 2", REFUSED)
    database.check_that_nothing_is_left()


async def test_nobody_waits_for_ever_when_the_process_ends() -> None:
    """The loop cancels what runs in it: who waits behind that is let go as well."""
    database = Database()
    await database.bring(1)
    rest = await database.bring(2, 3)
    database.batches._sending["acme"].cancel()
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*rest, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
    database.check_that_nothing_is_left()
