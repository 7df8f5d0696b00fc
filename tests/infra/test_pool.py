"""Connections to lend: which are lent, which are closed, and when."""

import asyncio
from typing import Any

import asyncpg
import pytest

from safelight.infra.pool import Pool


class Line:
    """Stands for a connection."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True

    async def close(self, *, timeout: float) -> None:
        del timeout
        self.closed = True


async def connect() -> Any:
    return Line()


async def test_the_one_given_back_last_is_lent_first() -> None:
    pool = Pool(connect)
    first, second = await pool.another(), await pool.another()
    pool.give_back(first)
    pool.give_back(second)
    assert [pool.at_hand(), pool.at_hand(), pool.at_hand()] == [second, first, None]


async def test_one_that_has_ended_is_not_lent() -> None:
    pool = Pool(connect)
    ended, other = await pool.another(), await pool.another()
    pool.give_back(other)
    pool.give_back(ended)
    ended.terminate()
    assert pool.at_hand() == other
    other.terminate()
    pool.give_back(other)
    assert len(pool) == 0


async def test_one_that_nobody_wants_is_closed() -> None:
    pool = Pool(connect, unwanted=0.05)
    old, new = await pool.another(), await pool.another()
    pool.give_back(old)
    pool.give_back(new)
    async with asyncio.timeout(10):
        while not new.closed:
            await asyncio.sleep(0.01)
    assert old.closed
    assert len(pool) == 0


async def test_one_that_has_served_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safelight.infra.pool._MOST_LOANS", 2)
    pool = Pool(connect)
    line = await pool.another()
    pool.give_back(line)
    assert pool.at_hand() == line
    pool.give_back(line)
    assert line.is_closed()
    assert pool.at_hand() is None


async def test_closing_waits_for_those_that_are_lent_and_lends_no_more() -> None:
    pool = Pool(connect)
    lent, idle = await pool.another(), await pool.another()
    pool.give_back(idle)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    assert idle.closed
    assert not closing.done()
    pool.give_back(lent)
    await closing
    assert lent.closed
    with pytest.raises(asyncpg.InterfaceError):
        await pool.another()


async def test_the_idle_are_ended_and_the_lent_go_on() -> None:
    pool = Pool(connect)
    lent, idle = await pool.another(), await pool.another()
    pool.give_back(idle)
    pool.end_the_idle()
    assert idle.closed
    assert not lent.closed
    pool.terminate()
    assert lent.closed
