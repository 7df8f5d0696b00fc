"""Who comes to a hash next, of a crowd."""

import asyncio

import pytest

from safelight.accounts.crowd import AT_ONCE, EACH, KEPT, LINE, MOST_WAITING, Crowd, SignInCrowded
from safelight.infra.turns import whose

ROOM = AT_ONCE - KEPT


class People:
    """Come, and stay until they are told to go."""

    def __init__(self) -> None:
        self.crowd = Crowd()
        self.served: list[str] = []
        self._ends: dict[str, list[asyncio.Event]] = {}

    async def bring(
        self, name: str, amount: int = 1, *, known: bool = False
    ) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._come(name, known)) for _ in range(amount)]
        await settled()
        return tasks

    async def end(self, name: str) -> None:
        self._ends[name].pop(0).set()
        await settled()

    async def _come(self, name: str, known: bool) -> None:
        async with self.crowd.turn(name, known=known):
            assert whose.get() == name
            self.served.append(name)
            end = asyncio.Event()
            self._ends.setdefault(name, []).append(end)
            await end.wait()


async def settled() -> None:
    """Everybody has gone on as far as they can without anything from outside."""
    for _ in range(5):
        await asyncio.sleep(0)


def turned_away(tasks: list[asyncio.Task[None]]) -> int:
    done = [task for task in tasks if task.done()]
    assert all(isinstance(task.exception(), SignInCrowded) for task in done)
    return len(done)


async def test_one_address_has_few_turns_and_a_short_line() -> None:
    people = People()
    crowd = await people.bring("a", 100)
    assert people.served == ["a"] * EACH
    assert turned_away(crowd) == 100 - EACH - LINE
    await people.bring("b")
    assert people.served[EACH:] == ["b"], "there is room for others"
    await people.end("a")
    assert people.served[EACH + 1 :] == ["a"], "and who waits comes in turn"


async def test_a_stranger_waits_for_one_turn() -> None:
    people = People()
    for name in ("a", "b"):
        await people.bring(name, LINE)
    assert people.served == ["a", "a", "b", "b"]
    await people.bring("stranger")
    await people.end("b")
    assert people.served[-1] == "stranger"


async def test_two_turns_are_kept_for_those_we_know() -> None:
    people = People()
    for number in range(ROOM + 1):
        await people.bring(f"crowd {number}")
    assert len(people.served) == ROOM
    for name in ("ada", "bob"):
        await people.bring(name, known=True)
    assert people.served[ROOM:] == ["ada", "bob"]
    await people.bring("carl", known=True)
    await people.end("crowd 0")
    assert people.served[ROOM + 2 :] == ["carl"], "although somebody else came before"


async def test_strangers_have_what_those_we_know_leave() -> None:
    people = People()
    for number in range(AT_ONCE):
        await people.bring(f"known {number}", known=True)
    await people.bring("stranger")
    await people.end("known 0")
    assert people.served[AT_ONCE:] == ["stranger"]


async def test_somebody_known_is_not_turned_away_for_strangers() -> None:
    people = People()
    for number in range(ROOM + MOST_WAITING):
        await people.bring(f"crowd {number}")
    assert turned_away(await people.bring("stranger")) == 1
    coming = [await people.bring(f"known {n}", known=True) for n in range(KEPT + 1)]
    assert [turned_away(one) for one in coming] == [0] * (KEPT + 1)


async def test_the_longest_line_makes_room() -> None:
    people = People()
    lines = [
        task
        for number in range(ROOM)
        for task in await people.bring(f"crowd {number}", 1 + MOST_WAITING // ROOM)
    ]
    assert turned_away(lines) == 0
    assert turned_away(await people.bring("stranger")) == 0
    assert turned_away(lines) == 1
    for number in range(ROOM + 1):
        await people.end(people.served[number])
    assert people.served[-1] == "stranger", "one each of those who were there before"


@pytest.mark.parametrize("moment", ["waiting", "served", "turned away"])
async def test_who_gives_up_leaves_nothing_behind(moment: str) -> None:
    people = People()
    await people.bring("a", EACH)
    [leaver] = await people.bring("a")
    if moment == "served":  # it was given the turn and is cancelled before it has run
        people._ends["a"].pop(0).set()
        await asyncio.sleep(0)
    if moment == "turned away":
        [[turn]] = people.crowd._lines.values()
        turn.set_exception(SignInCrowded(retry_after=1))
        people.crowd._lines.clear()
    leaver.cancel()
    await settled()
    assert leaver.cancelled()
    for _ in range(EACH - (moment == "served")):
        await people.end("a")
    assert not people.crowd._held
    assert not people.crowd._lines
