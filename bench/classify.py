"""The ceiling: decode and infer in bare threads, with no server, queue or database around them.

`python -m bench.classify [seconds]` prints it; the pipeline's bench divides by the ceiling. Only
figures of one run on one machine compare, and CPU per image better than images per second.

The bare loop runs in a process of its own, so that nobody else's threads disturb it, on the
allocator's settings that the sandbox's children have, and with the number of threads that suits it
best.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from PIL import Image

from bench.measure import median
from bench.pictures import two_megapixels
from safelight.classification import lite0
from safelight.classification.network import Predict
from safelight.classification.preprocess import Decoder

MAX_PIXELS = 100_000_000
Work = Callable[[bytes], object]
Figure = tuple[float, float]  # images per second, and CPU milliseconds per image
_AS_CHILDREN = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_ROUNDS = 3


def thread_counts() -> list[int]:
    cores = os.cpu_count() or 1
    return sorted({1, 2, cores, 2 * cores})


class Bare:
    """The bare loop by number of threads, over all the times it was measured."""

    def __init__(self, *, thumbnail: bool = False) -> None:
        self._found: dict[int, list[Figure]] = {}
        self._what = "thumbnail" if thumbnail else "bare"

    def measure(self, seconds: float) -> None:
        """Alone: nothing else of the bench may be at work now."""
        command = [sys.executable, "-m", "bench.classify", str(seconds), self._what]
        environment = {**os.environ, **_AS_CHILDREN}
        told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        for threads, figures in json.loads(told.stdout.splitlines()[-1]).items():
            self._found.setdefault(int(threads), []).extend(map(tuple, figures))

    @property
    def threads(self) -> int:
        """That did most images: the ceiling. One thread costs less, since nobody else uses the
        memory, and leaves the other cores idle."""
        return max(self._found, key=self._rate)

    def _rate(self, threads: int) -> float:
        return median([rate for rate, _ in self._found[threads]])

    def cpu(self, threads: int | None = None) -> float:
        return median([cpu for _, cpu in self._found[threads or self.threads]])

    @property
    def rate(self) -> float:
        return self._rate(self.threads)

    def told(self) -> str:
        each = (f"{threads}: {self.cpu(threads):.1f}" for threads in sorted(self._found))
        return ", ".join(each)


def alone(seconds: float, *, thumbnail: bool) -> dict[int, list[Figure]]:
    """Each number of threads by turns, for so many seconds in all."""
    work, counts = partial(warm(), thumbnail=thumbnail), thread_counts()
    found: dict[int, list[Figure]] = {threads: [] for threads in counts}
    for _ in range(_ROUNDS):
        for threads in counts:
            found[threads].append(measured(work, seconds / len(counts) / _ROUNDS, threads))
    return found


def measured(work: Work, seconds: float, threads: int) -> tuple[float, float]:
    """CPU is that of the whole process: nothing else may run in it."""
    data, counts = two_megapixels(), [0] * threads
    began, cpu = time.perf_counter(), time.process_time()

    def run(number: int) -> None:
        while time.perf_counter() - began < seconds:
            work(data)
            counts[number] += 1

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    elapsed, spent = time.perf_counter() - began, time.process_time() - cpu
    return sum(counts) / elapsed, spent / sum(counts) * 1000


def parts(seconds: float) -> dict[str, tuple[float, float]]:
    """Where the time goes, on one thread."""
    predict = warm()
    return {
        "decode": measured(_decode, seconds, 1),
        "decode, infer": measured(predict, seconds, 1),
        "decode, infer, thumbnail": measured(partial(predict, thumbnail=True), seconds, 1),
    }


def warm() -> Predict:
    predict = lite0.load(MAX_PIXELS, lite0.weights_path())
    predict(two_megapixels(), thumbnail=True)
    return predict


def _decode(data: bytes) -> object:
    with Decoder(MAX_PIXELS).decoded(data) as picture:
        return picture.square(lite0.SIDE, lite0.SHARE, Image.Resampling.BICUBIC)


def main(seconds: float, what: str | None = None) -> None:
    if what:
        print(json.dumps(alone(seconds, thumbnail=what == "thumbnail")))
        return
    for threads, figures in alone(seconds, thumbnail=False).items():
        rate, cpu = (median([figure[n] for figure in figures]) for n in (0, 1))
        print(f"{threads} threads, decode, infer: {rate:.1f} images/s, {cpu:.1f} ms of CPU each")
    for name, (rate, cpu) in parts(seconds / 2).items():
        print(f"1 thread, {name}: {rate:.1f} images/s, {cpu:.1f} ms of CPU each")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0, *sys.argv[2:3])
