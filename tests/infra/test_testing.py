"""The kit that other tests stand on."""

import asyncio
import threading
from pathlib import Path

import pytest

from infra.queue.crew import WORK, Number, succeed
from safelight.infra import failpoints
from safelight.infra.injected import Clock, Ids
from safelight.infra.queue.handlers import Handler
from safelight.objects.store import Facts
from safelight.settings import load
from safelight.testing.base import local_store, open_base
from safelight.testing.hands import Hands
from safelight.testing.injected import CountedIds, Watch
from safelight.testing.waiting import Overdue, eventually, told_by, until


def test_a_watch_moves_when_it_is_moved() -> None:
    watch: Clock = Watch(1000)
    assert isinstance(watch, Watch)
    assert (watch.now_ms(), watch.now_ms()) == (1000, 1000)
    assert watch.move(seconds=1.5, ms=1) == 2501
    assert watch.move(days=-1) == 2501 - 86_400_000


def test_counted_ids_are_the_same_every_time_and_sort_by_their_making() -> None:
    def make(ids: Ids) -> list[str]:
        return [ids.image(0), ids.uuid4(), ids.uuid7(5), ids.short("a"), ids.secret()]

    assert make(CountedIds()) == make(CountedIds())
    ids = CountedIds()
    assert ids.uuid7(5) < ids.uuid7(5) < ids.uuid7(6)
    assert ids.image(0) < ids.image(0)
    assert ids.short("x") < ids.short("x")
    assert len(ids.secret()) == 43


async def test_waiting_tells_what_was_seen_last() -> None:
    seen = iter([0, [], "here"])
    assert await until(lambda: next(seen)) == "here"
    with pytest.raises(Overdue, match=r"still None after 0.02 s"):
        await until(lambda: None, 0.02)
    with pytest.raises(Overdue, match="still 0 after"):
        eventually(lambda: 0, 0.02)


async def test_a_point_tells_when_it_is_passed() -> None:
    observed = failpoints.observe("queue.run")
    waiting = asyncio.create_task(observed.passed(2))
    await failpoints.reach("queue.run")
    thread = threading.Thread(target=failpoints.hit, args=["queue.run"])
    thread.start()
    await waiting
    thread.join()
    observed.wait(2)
    with pytest.raises(TimeoutError, match="passed 2 times, not 3"):
        observed.wait(3, seconds=0.01)
    with pytest.raises(TimeoutError):
        await observed.passed(3, seconds=0.01)


async def test_a_step_is_held_until_it_is_let_go() -> None:
    armed = failpoints.arm("queue.run", "hold@1")
    done: list[str] = []

    async def step() -> None:
        await failpoints.reach("queue.run")
        done.append("first")

    held = asyncio.create_task(step())
    await armed.passed()
    await failpoints.reach("queue.run")  # only the first is held
    thread_armed = failpoints.arm("kv.put", "hold")
    thread = threading.Thread(target=failpoints.hit, args=["kv.put"])
    thread.start()
    await asyncio.to_thread(thread_armed.wait)
    done.append("second")
    failpoints.disarm()
    await held
    await asyncio.to_thread(thread.join)
    assert done == ["second", "first"]


async def test_what_hangs_is_never_let_go() -> None:
    armed = failpoints.arm("queue.run", "hang")
    hung = asyncio.create_task(failpoints.reach("queue.run"))
    await armed.passed()
    failpoints.disarm()
    done, _ = await asyncio.wait([hung], timeout=0.05)
    assert not done
    hung.cancel()


async def test_one_feature_stands_on_a_base(database_url: str, tmp_path: Path) -> None:
    watch = Watch()
    settings = load({"data_dir": tmp_path})
    async with open_base(settings, database_url, [WORK], clock=watch, ids=CountedIds()) as base:
        store = local_store(base, tmp_path / "blobs")
        path = tmp_path / "file"
        path.write_bytes(b"bytes")
        written = await store.put("acme/a.jpg", path, Facts("image/jpeg", {}))
        assert written.event_time == watch.now_ms()
        await store.close()

        hands = Hands(base.queue, [Handler(WORK, succeed)])
        with told_by(base.bus, "jobs") as news:
            await base.queue.enqueue(base.db, WORK, Number(1), organization="acme", run_in=60)
            await news.next()
        assert await hands.claim(WORK.name) is None
        await hands.hurry()
        lost = await hands.lose(WORK.name)
        assert lost
        assert lost.attempt == 1
        assert await hands.work() == 1
        await hands.write(lost, await hands.run(lost))  # late, and refused
        assert await base.db.fetchval("SELECT count(*) FROM jobs WHERE kind = $1", WORK.name) == 0
