"""Turns go round the organizations, whatever one of them brings."""

import asyncio
from contextvars import copy_context

import pytest

from safelight.infra.turns import Turns, whose


class Users:
    """Takes turns in somebody's name and keeps them until told otherwise."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.served: list[str] = []
        self._ends: dict[str, list[asyncio.Event]] = {}

    async def bring(self, organization: str, amount: int = 1) -> list[asyncio.Task[None]]:
        context = copy_context()
        context.run(whose.set, organization)
        tasks = [
            asyncio.create_task(self._use(organization), context=context.copy())
            for _ in range(amount)
        ]
        await _settled()
        return tasks

    async def end(self, organization: str) -> None:
        self._ends[organization].pop(0).set()
        await _settled()

    async def _use(self, organization: str) -> None:
        async with self.turns.turn():
            self.served.append(organization)
            end = asyncio.Event()
            self._ends.setdefault(organization, []).append(end)
            await end.wait()


async def _settled() -> None:
    """Everybody has gone on as far as they can without anything from outside."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_another_organization_waits_for_one_turn() -> None:
    users = Users(Turns(2))
    await users.bring("whale", 1000)
    await users.bring("shrimp")
    assert users.served == ["whale", "whale"]
    await users.end("whale")
    assert users.served[2:] == ["shrimp"]


async def test_turns_go_to_who_has_the_fewest_then_round() -> None:
    users = Users(Turns(4))
    await users.bring("a", 10)
    await users.bring("b", 10)
    await users.bring("c", 10)
    for _ in range(4):
        await users.end("a")
    assert users.served[4:] == ["b", "c", "a", "b"]


async def test_one_organization_alone_has_all_of_them_in_order() -> None:
    turns = Turns(3)
    users = Users(turns)
    await users.bring("only", 5)
    assert len(users.served) == 3
    await users.end("only")
    assert len(users.served) == 4


async def test_a_guest_has_one_more() -> None:
    users = Users(Turns(2, guests=True))
    await users.bring("whale", 10)
    assert users.served == ["whale", "whale"]
    await users.bring("shrimp", 2)
    assert users.served[2:] == ["shrimp"]
    await users.bring("another")
    assert len(users.served) == 3
    await users.end("shrimp")
    assert users.served[3:] == ["shrimp"]  # it came before the other
    await users.end("shrimp")
    assert users.served[4:] == ["another"]
    await users.end("another")
    await users.end("whale")
    assert users.served[5:] == ["whale"]


async def test_no_guest_where_everybody_has_one() -> None:
    users = Users(Turns(2, guests=True))
    for name in ("a", "b", "c"):
        await users.bring(name)
    assert users.served == ["a", "b"]


@pytest.mark.parametrize("moment", ["waiting", "served"])
async def test_who_gives_up_is_passed_over(moment: str) -> None:
    users = Users(Turns(1))
    await users.bring("a")
    [leaver] = await users.bring("b")
    await users.bring("c")
    if moment == "served":  # it was given the turn and is cancelled before it has run
        users._ends["a"][0].set()
        await asyncio.sleep(0)
    leaver.cancel()
    await _settled()
    if moment == "waiting":
        await users.end("a")
    assert users.served == ["a", "c"]
    await users.end("c")
    await users.bring("d")
    assert users.served[-1] == "d"


async def test_nothing_is_remembered_of_who_has_left() -> None:
    turns = Turns(1)
    users = Users(turns)
    for n in range(100):
        await users.bring(f"visitor-{n}")
    for n in range(100):
        await users.end(f"visitor-{n}")
    assert not turns._held
    assert not turns._waiting
