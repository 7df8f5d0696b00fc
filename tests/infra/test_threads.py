"""Threads for what blocks: what is asked is done and told, also when nobody waits any more."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from safelight.infra.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(2, "test")
    yield made
    made.close()


async def test_work_is_done_elsewhere_and_its_answer_told_here(threads: Threads) -> None:
    async def ask(number: int) -> tuple[int, str]:
        return await threads.run(lambda: (number, threading.current_thread().name))

    answers = await asyncio.gather(*map(ask, range(100)))
    assert answers == [(number, "test") for number in range(100)]


async def test_no_more_at_once_than_it_may(threads: Threads) -> None:
    both, third = threading.Barrier(3), threading.Event()
    first = [asyncio.create_task(threads.run(both.wait, 10)) for _ in range(2)]
    last = asyncio.create_task(threads.run(third.set))
    await asyncio.sleep(0.05)
    assert not third.is_set()
    await asyncio.to_thread(both.wait, 10)
    await asyncio.gather(*first, last)
    assert third.is_set()


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), KeyboardInterrupt()])
async def test_an_error_is_raised_where_the_answer_is_awaited(
    threads: Threads, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)):  # a coroutine may not raise StopIteration
        await threads.run(fail)
    assert await threads.run(int, "7") == 7


async def test_cancelled_it_ends_after_the_work(threads: Threads) -> None:
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(10)
        done.set()

    asking = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        asking.cancel()
        await asyncio.sleep(0.01)
        assert not asking.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert done.is_set()


async def test_what_the_work_held_is_let_go(threads: Threads) -> None:
    class Thing:
        def use(self) -> None: ...

        def fail(self) -> None:
            raise ValueError

    thing = Thing()
    gone = weakref.ref(thing)
    gc.disable()
    try:
        await threads.run(thing.use)
        with pytest.raises(ValueError):
            await threads.run(thing.fail)
        del thing
        assert gone() is None
    finally:
        gc.enable()


async def test_closing_waits_for_what_was_asked() -> None:
    threads = Threads(1, "test")
    done: list[int] = []
    asking = [asyncio.create_task(threads.run(done.append, number)) for number in range(5)]
    await asyncio.sleep(0)
    threads.close()
    assert done == [0, 1, 2, 3, 4]
    await asyncio.gather(*asking)
    with pytest.raises(RuntimeError):
        await threads.run(done.append, 6)
