"""Threads, loading and failing, without a real model: those are timing questions."""

import asyncio
import threading

import pytest

from safelight.classification.base import ModelError, Prediction, Undecodable
from safelight.classification.network import LocalClassifier, Predict

ANSWER = Prediction("DAISY", 0.5)


def made(load: Predict | Exception, threads: int = 2) -> LocalClassifier:
    def loaded() -> Predict:
        if isinstance(load, Exception):
            raise load
        return load

    return LocalClassifier("test", "test", hash_model=lambda: "ff", load=loaded, threads=threads)


async def test_two_threads_take_sixteen_calls_two_at_a_time() -> None:
    both, lock = threading.Barrier(2), threading.Lock()
    busy, most = 0, 0

    def predict(_data: bytes, **_: bool) -> Prediction:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        both.wait(20)
        with lock:
            busy -= 1
        both.wait(20)
        return ANSWER

    classifier = made(predict)
    found = await asyncio.gather(*(classifier.classify(b"") for _ in range(16)))
    await classifier.close()
    assert found == [ANSWER] * 16
    assert most == 2


async def test_the_model_is_loaded_once_by_whoever_comes_first() -> None:
    loads = []

    def load() -> Predict:
        loads.append(1)
        return lambda _data, **_: ANSWER

    classifier = LocalClassifier("test", "test", hash_model=lambda: "ff", load=load, threads=4)
    await classifier.open()
    assert not loads
    await asyncio.gather(*(classifier.classify(b"") for _ in range(16)))
    await classifier.close()
    assert loads == [1]


async def test_opening_again_costs_nothing() -> None:
    hashed = []

    def hash_model() -> str:
        hashed.append(1)
        return "ff"

    classifier = LocalClassifier(
        "test", "test", hash_model=hash_model, load=lambda: lambda _data, **_: ANSWER
    )
    await classifier.open()
    await classifier.open()
    await classifier.close()
    assert hashed == [1]
    assert classifier.model_hash == "ff"


async def test_a_failed_load_is_tried_again() -> None:
    tries = iter([OSError("the disk hiccuped"), None])

    def load() -> Predict:
        if problem := next(tries):
            raise problem
        return lambda _data, **_: ANSWER

    classifier = LocalClassifier("test", "test", hash_model=lambda: "ff", load=load, threads=1)
    with pytest.raises(ModelError, match="hiccuped"):
        await classifier.classify(b"")
    assert await classifier.classify(b"") == ANSWER
    await classifier.close()


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), ValueError()])
async def test_whatever_goes_wrong_inside_is_the_models_fault(error: Exception) -> None:
    def predict(_data: bytes, **_: bool) -> Prediction:
        raise error

    classifier = made(predict)
    with pytest.raises(ModelError, match=type(error).__name__):
        await classifier.classify(b"")
    await classifier.close()


async def test_an_undecodable_image_is_not_the_models_fault() -> None:
    classifier = made(Undecodable())
    with pytest.raises(Undecodable):
        await classifier.classify(b"")
    await classifier.close()


async def test_a_cancelled_caller_frees_the_place_it_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()
    seen = []

    def predict(data: bytes, **_: bool) -> Prediction:
        begun.set()
        go.wait(20)
        seen.append(data)
        return ANSWER

    classifier = made(predict, threads=1)
    first = asyncio.create_task(classifier.classify(b"first"))
    await asyncio.to_thread(begun.wait, 20)
    second = asyncio.create_task(classifier.classify(b"second"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    await first
    await classifier.close()
    assert seen == [b"first"]
