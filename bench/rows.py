"""How long an answer takes among a thousand entries, and among a million.

Machines change their mind within minutes, so the ratio is not taken from two moments: a second
server with the smaller library stands beside, and both are asked by turns.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg
import httpx

from bench import filling, plot
from bench.database import Bench, database
from bench.filling import ORGANIZATION
from bench.measure import Figure, Shown, Table, median, verdict
from bench.plot import Axis, Points
from bench.server import serving
from safelight.http.paging import Cursors

BASE = 10_000
_LIMIT = 1.5
_SECRET = "a secret that is long enough for cursors"
_LIBRARY = f"/api/organizations/{ORGANIZATION}/uploads"
_FEED = f"/api/organizations/{ORGANIZATION}/activity"
_WARM, _ASKED = 5, 40  # times each question
_OTHERS = ("one by its name", "feed", "delete", "claim")
Ask = Callable[[int], float]  # the how manieth time; milliseconds


@dataclass
class Library:
    """A server that only answers, and its database."""

    bench: Bench
    http: httpx.Client
    size: int = 0

    def grow(self, size: int) -> float:
        seconds = asyncio.run(filling.fill(self.bench.url, self.size, size))
        self.size = size
        return seconds

    def questions(self, claim: Ask) -> dict[str, Ask]:
        lists: dict[str, dict[str, str]] = {
            "first page": {},
            "deep page": {"cursor": _cursor(self.size // 2)},
            "status=done": {"status": "done"},
            "status=failed": {"status": "failed"},
            "label=": {"label": "label17"},
            "q=, every 10th entry": {"q": "tenth"},
            "q=, every 100th": {"q": "hundredth"},
            "q=, one entry": {"q": f"{self.size // 3:08}"},
        }
        asked: dict[str, Ask] = {name: self._page(_LIBRARY, query) for name, query in lists.items()}
        asked["one by its name"] = lambda n: self._one("GET", self.size - 100 - n, 200)
        asked["feed"] = self._page(_FEED, {"after": str(self.size), "limit": "50"})
        asked["delete"] = lambda n: self._one("DELETE", self.size - n, 202)
        asked["claim"] = claim
        return asked

    def _page(self, path: str, query: dict[str, str]) -> Ask:
        def ask(_: int) -> float:
            began = time.perf_counter()
            answer = self.http.get(path, params=query)
            took = time.perf_counter() - began
            assert answer.status_code == 200, answer.text
            assert answer.json()["items"], query
            return took * 1000

        return ask

    def _one(self, method: str, number: int, status: int) -> float:
        began = time.perf_counter()
        answer = self.http.request(method, f"{_LIBRARY}/photo-{number:08}.jpg")
        took = time.perf_counter() - began
        assert answer.status_code == status, answer.text
        return took * 1000


@contextmanager
def _library() -> Iterator[Library]:
    with database() as bench:
        settings = {"SAFELIGHT_DATABASE_URL": bench.url, "SAFELIGHT_SECRET_KEY": _SECRET}
        with (
            serving("--no-worker", files=bench.files, **settings) as server,
            server.client() as client,
        ):
            yield Library(bench, client)


def run(sizes: Sequence[int]) -> list[Shown]:
    base = min(BASE, sizes[-1])
    found: dict[str, dict[int, float]] = {}
    with _library() as small, _library() as grown:
        small.grow(base)
        filled = []
        for size in sizes:
            filled.append(grown.grow(size))
            by_turns = _by_turns([grown, small] if size == sizes[-1] else [grown])
            for name, (milliseconds, *_) in by_turns.items():
                found.setdefault(name, {})[size] = milliseconds
    ratios = {name: large / little for name, (large, little) in by_turns.items()}
    lists = [name for name in found if name not in _OTHERS]
    return [
        _table(found, ratios, base, filled),
        _figure("rows", "How long a page of the library takes, by entries", found, lists),
        _figure("others", "How long other things take, by entries", found, list(_OTHERS)),
    ]


def _by_turns(libraries: list[Library]) -> dict[str, list[float]]:
    """The middle of many, for each library."""
    found = {}
    with ExitStack() as stack:
        asked = [
            library.questions(stack.enter_context(_claiming(library.bench.url)))
            for library in libraries
        ]
        for name in asked[0]:
            took: list[list[float]] = [[] for _ in libraries]
            for number in range(_WARM + _ASKED):
                for questions, times in zip(asked, took, strict=True):
                    times.append(questions[name](number))
            found[name] = [median(times[_WARM:]) for times in took]
    return found


@contextmanager
def _claiming(url: str) -> Iterator[Ask]:
    """Of four jobs among as many as there are entries; each is given back."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        yield lambda _: runner.run(_claim(connection))
        runner.run(connection.close())


async def _claim(connection: "asyncpg.Connection[Any]") -> float:
    transaction = connection.transaction()
    await transaction.start()
    began = time.perf_counter()
    taken = await connection.fetch(
        "SELECT * FROM job_take($1, $2, $3, $4, $5, $6)",
        [filling.KIND], [4], [""], "", "bench", timedelta(seconds=30),
    )  # fmt: skip
    took = time.perf_counter() - began
    await transaction.rollback()
    assert len(taken) == 4
    return took * 1000


def _cursor(number: int) -> str:
    """As the server signs them; walking there page by page would take thousands of requests."""
    key = [filling.BEGAN + number * 1000, f"photo-{number:08}.jpg"]
    return Cursors(_SECRET).make(f"uploads:{ORGANIZATION}:None:None:None", key)


def _table(
    found: dict[str, dict[int, float]], ratios: dict[str, float], base: int, filled: list[float]
) -> Table:
    sizes = list(found["claim"])
    table = Table(
        "Growth: rows, one organization (p50 in ms)",
        "asked", *(f"{size:,}" for size in sizes), f"{sizes[-1]:,} ÷ {base:,}", "budget", "verdict",
        says="Through the API, 50 entries a page; a claim is asked of PostgreSQL, among as many "
        "waiting jobs. The ratio is of two servers that are asked by turns. Filled in "
        + ", ".join(f"{each:.0f} s" for each in filled) + ".",
    )  # fmt: skip
    for name, values in found.items():
        cells = (f"{values[size]:.1f}" for size in sizes)
        met = verdict(ratios[name], ("≤", _LIMIT))
        table.add(name, *cells, f"{ratios[name]:.2f}", f"≤ {_LIMIT}", met)
    return table


def _figure(file: str, title: str, found: dict[str, dict[int, float]], names: list[str]) -> Figure:
    lines: dict[str, Points] = {name: list(found[name].items()) for name in names}
    across = Axis("entries in the library", log=True, at=tuple(map(float, found[names[0]])))
    svg = plot.curves(title, across, Axis("milliseconds, p50", log=True), lines)
    return Figure(plot.save(f"performance-{file}.svg", svg), f"{title}: milliseconds, p50")
