"""One load, from the first upload to the last label, and what it cost: the same for whatever is
measured, which says itself when it has done how many."""

import time
from dataclasses import dataclass
from typing import Protocol

from bench.load import multipart, post_many, request
from bench.measure import percentile
from bench.pictures import two_megapixels
from bench.processes import Usage, Usages, between, total, used
from bench.server import TOKEN

CLIENTS = 16
_LOOK_SECONDS, _SELDOM_SECONDS = 0.1, 2.0
_PATIENCE_SECONDS = 60.0  # without a single label more


class Measurable(Protocol):
    @property
    def port(self) -> int: ...
    def roots(self) -> dict[int, str]:
        """Processes with all below them, and what they are called; "": as they show."""

    def position(self) -> int: ...
    def done_since(self, position: int) -> tuple[int, int]:
        """How many images have got their label since then, and where that leaves us."""


@dataclass(frozen=True)
class Flow:
    count: int
    seconds: float
    usages: Usages
    latencies: list[float]

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    @property
    def cpu(self) -> float:
        """Milliseconds per image, of everything."""
        return self.ms(total(self.usages))

    @property
    def postgres(self) -> float:
        return self.ms(total(self.usages, postgres=True))

    @property
    def ours(self) -> float:
        return self.ms(total(self.usages, postgres=False))

    def of(self, *roles: str) -> float:
        """Of the processes whose role begins with one of these words."""
        chosen = [usage for role, usage in self.usages.items() if role.startswith(roles)]
        return self.ms(sum(chosen, Usage()))

    def ms(self, usage: Usage) -> float:
        return usage.cpu / self.count * 1000

    def latency(self, share: float) -> float:
        """Of an upload until its answer, in milliseconds."""
        return percentile(self.latencies, share) * 1000


def run(
    target: Measurable, count: int, *, clients: int = CLIENTS, rate: float | None = None
) -> Flow:
    position, roots = target.position(), target.roots()
    before, started = used(roots), time.monotonic()
    body = multipart(two_megapixels(), f"{time.monotonic_ns()}-00000.jpg")
    message = request("/api/upload", body, TOKEN)
    result = post_many(target.port, message, count=count, clients=clients, rate=rate, rename=True)
    assert result.statuses == {201: count}, result.statuses
    until_done(target, position, count)
    seconds = time.monotonic() - started
    return Flow(count, seconds, between(before, used(roots)), result.latencies)


def until_done(target: Measurable, position: int, count: int) -> None:
    """Looks seldom, and each time only at what is new: looking is answered by what is measured, and
    is nobody's image. Often only towards the end, so that the end is seen when it comes."""
    began = since = time.monotonic()
    done = 0
    while True:
        more, position = target.done_since(position)
        done, now = done + more, time.monotonic()
        if done >= count:
            return
        if more:
            since = now
        if now - since > _PATIENCE_SECONDS:
            raise TimeoutError(f"{done} of {count} images have a label, and no more come")
        left = (count - done) * (now - began) / max(done, 1)
        time.sleep(min(max(left / 2, _LOOK_SECONDS), _SELDOM_SECONDS))


def together(flows: list[Flow]) -> Flow:
    """Several rounds of the same as one."""
    usages: Usages = {}
    for flow in flows:
        for role, usage in flow.usages.items():
            usages[role] = usages.get(role, Usage()) + usage
    return Flow(
        sum(flow.count for flow in flows),
        sum(flow.seconds for flow in flows),
        usages,
        [latency for flow in flows for latency in flow.latencies],
    )
