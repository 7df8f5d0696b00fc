"""The ceiling: decode and infer in bare threads, with no server, queue or database around them.

`python -m bench.classify [seconds]` prints it; the pipeline's bench divides by the ceiling. Only
figures of one run on one machine compare, and CPU per image better than images per second.
"""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from PIL import Image

from bench.pictures import two_megapixels
from safelight.classification import lite0
from safelight.classification.network import Predict
from safelight.classification.preprocess import Decoder

MAX_PIXELS = 100_000_000
_TURN = 5
Work = Callable[[bytes], object]
Turn = tuple[float, float]  # milliseconds here, and there


def ceiling(seconds: float, threads: int = 2, *, thumbnail: bool = False) -> tuple[float, float]:
    """Images per second and CPU milliseconds per image at two megapixels."""
    predict = warm()
    return measured(partial(predict, thumbnail=thumbnail), seconds, threads)


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


def main(seconds: float) -> None:
    rate, cpu = ceiling(seconds)
    print(f"2 threads, decode, infer: {rate:.1f} images/s, {cpu:.1f} ms of CPU each")
    for name, (rate, cpu) in parts(seconds / 2).items():
        print(f"1 thread, {name}: {rate:.1f} images/s, {cpu:.1f} ms of CPU each")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0)
