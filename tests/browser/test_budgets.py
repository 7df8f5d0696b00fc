"""What a page may ask for before it is seen, what the pictures of its first screen weigh, and how far
things move while others arrive. All of it is counted, nothing is timed: `make bench` does that."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Page, Request, WebSocket

from browser.pages import LIBRARY, SIGHTS, Sight
from browser.windows import DRAWN, Window, Windows
from harness import eventually, picture
from scene.making import HERE
from scene.scene import Scene

REQUESTS, BYTES = 6, 40 * 1024
PICTURES = {(1440, 900): 600_000, (390, 844): 200_000}
SHIFT, ARRIVING = 0.02, 100
BEFORE_PAINT = {"document", "stylesheet", "script", "font"}
GALLERY = Sight("library", LIBRARY)
pytestmark = pytest.mark.browser
_numbers = count(1)

# Those that are, in part at least, on the screen, and how they were sent.
_IN_SIGHT = """() => {
  const shown = [...document.images].filter((one) => {
    const box = one.getBoundingClientRect();
    return one.checkVisibility() && box.bottom > 0 && box.top < innerHeight && !one.src.endsWith(".svg");
  });
  return shown.every((one) => one.complete) && [...new Set(shown.map((one) => one.currentSrc))]
    .map((url) => [url, performance.getEntriesByName(url).at(-1)?.encodedBodySize ?? 0]);
}"""
_LATER = """() => [...document.querySelectorAll('meta[name="later"]')]
  .map(({ content }) => new URL(content, location).href)"""
_WATCH_SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifted += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
}"""


@dataclass
class Traffic:
    """What a page asks for, as it comes over the wire."""

    page: Page
    asked: list[Request] = field(default_factory=list)
    ended: int = 0

    def __post_init__(self) -> None:
        self.page.on("request", self._begin)
        self.page.on("requestfinished", self._end)
        self.page.on("requestfailed", self._end)

    def _begin(self, request: Request) -> None:
        self.asked.append(request)

    def _end(self, _: Request) -> None:
        self.ended += 1

    def quiet(self) -> None:
        """Nothing is on its way, and what came was drawn."""
        eventually(lambda: self.page.evaluate(DRAWN) or self.ended == len(self.asked))

    def before_paint(self) -> list[Request]:
        """Without what the page puts off until it is seen."""
        later = self.page.evaluate(_LATER)
        return [
            each
            for each in self.asked
            if each.resource_type in BEFORE_PAINT and each.url not in later
        ]

    def renditions(self) -> list[Request]:
        """What stays the same under its address: a submission can be withdrawn, and an original is
        large."""
        return [each for each in self.asked if re.search(r"/thumbnail\?.*v=", each.url)]


def weight(request: Request) -> int:
    sizes = request.sizes()
    return int(sizes["responseBodySize"] + sizes["responseHeadersSize"])


def visited(windows: Windows, sight: Sight, size: tuple[int, int] = (1440, 900)) -> "Visited":
    traffic: list[Traffic] = []
    window = windows.open(
        sight, *size, fresh=True, before=lambda page: traffic.append(Traffic(page))
    )
    traffic[0].quiet()
    return Visited(window, traffic[0])


@dataclass(frozen=True, slots=True)
class Visited:
    window: Window
    traffic: Traffic

    @property
    def page(self) -> Page:
        return self.window.page


@pytest.mark.parametrize(
    "sight", [one for one in SIGHTS if not one.is_state], ids=lambda sight: sight.name
)
def test_before_the_first_paint(windows: Windows, sight: Sight) -> None:
    visit = visited(windows, sight)
    asked = visit.traffic.before_paint()
    bytes_of = {each.url: weight(each) for each in asked}
    assert len(asked) <= REQUESTS, bytes_of
    assert sum(bytes_of.values()) <= BYTES, bytes_of
    for each in visit.traffic.renditions():
        answer = each.response()
        assert answer
        assert "immutable" in answer.headers["cache-control"], each.url
    visit.page.close()


@pytest.mark.parametrize("size", PICTURES, ids=lambda size: str(size[0]))
def test_the_pictures_of_the_first_screen(windows: Windows, size: tuple[int, int]) -> None:
    page = visited(windows, GALLERY, size).page
    shown: dict[str, int] = dict(eventually(lambda: page.evaluate(_IN_SIGHT)))
    page.close()
    assert len(shown) > 1
    assert all(shown.values()), shown
    assert sum(shown.values()) <= PICTURES[size], shown


@pytest.mark.parametrize("scrolled", [0, 700])
def test_nothing_moves_while_images_arrive(windows: Windows, scene: Scene, scrolled: int) -> None:
    """Not under somebody who looks at the newest, and not under somebody who looks at older ones."""
    heard: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda message: heard.append(str(message)))

    visit = visited(windows, GALLERY)
    page = visit.page
    page.on("websocket", listen)
    page.reload()
    visit.traffic.quiet()
    page.evaluate(f"() => scrollTo(0, {scrolled})")
    page.evaluate(_WATCH_SHIFTS)
    before = page.evaluate("() => window.shifted")
    names = send(scene, ARRIVING // 2)

    def all_labelled() -> bool:
        page.evaluate(DRAWN)  # and the messages are handed over meanwhile
        told = [text for text in heard if "classification_updated" in text]
        return all(any(f'"{name}"' in text for text in told) for name in names)

    eventually(all_labelled, 60)
    visit.traffic.quiet()
    shifted: float = page.evaluate("() => window.shifted") - before
    page.close()
    with scene.server.client() as client:
        assert client.post(f"{HERE}/uploads/delete", json={"names": names}).is_success
    assert shifted < SHIFT


def send(scene: Scene, many: int) -> list[str]:
    """Pictures of many shapes."""
    shapes = ((64, 48), (48, 64), (90, 40), (60, 60))
    names = [f"arriving-{next(_numbers)}.jpg" for _ in range(many)]

    def upload(number: int) -> Any:
        made = picture(size=shapes[number % 4], colour=f"hsl({number * 7}, 60%, 50%)")
        return scene.server.upload(made, names[number]).status_code

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(upload, range(many))) == {201}
    return names
