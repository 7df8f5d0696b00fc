"""Windows on a scene, for whoever looks at pages: one for each caller, so that style sheets and
scripts are fetched once; and an ear on each page."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Page,
    Request,
    Response,
)

from browser.pages import NOBODY, Sight
from scene.scene import Scene

_PATIENCE = 30_000  # milliseconds
# Whatever follows a change of the window, or of the page, has been done and painted.
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Window:
    """A page on a sight. `complaints` are the console's, and what was not there."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    _session: CDPSession | None = None

    def size(self, width: int, height: int, *, touch: bool = False) -> None:
        """With the finger of somebody who holds it, or a pointer."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.tell("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.page.evaluate(DRAWN)

    def tell(self, what: str, **how: Any) -> None:
        """Chromium, by its own protocol."""
        if self._session is None:
            self._session = self.page.context.new_cdp_session(self.page)
        self._session.send(what, how)

    def light(self, scheme: str) -> None:
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]


class Windows:
    """Without scripts, those of the page are left out of its answers: where none may run at all, axe
    cannot run either."""

    def __init__(self, browser: Browser, scene: Scene, **options: Any) -> None:
        self._browser, self._scene, self._options = browser, scene, options
        self._contexts: dict[tuple[str, bool], BrowserContext] = {}
        self._alone: list[BrowserContext] = []

    def open(
        self,
        sight: Sight,
        width: int = 1440,
        height: int = 900,
        *,
        fresh: bool = False,
        before: Callable[[Page], object] | None = None,
    ) -> Window:
        """As it is once everything has loaded and what it is to show was done. `fresh`: nothing is
        in its cache. `before` is given the page before it asks for anything."""
        page = (self._lone(sight) if fresh else self._context(sight)).new_page()
        page.set_default_timeout(_PATIENCE)
        window = Window(page)
        listen(window, sight)
        window.size(width, height)
        window.light("light")
        if before:
            before(page)
        page.goto(self._scene.address(sight.path))
        if sight.then:
            sight.then(page)
        return window

    def close(self) -> None:
        for context in (*self._contexts.values(), *self._alone):
            context.close()

    def _lone(self, sight: Sight) -> BrowserContext:
        self._alone.append(self._fresh(sight.who, sight.scripts))
        return self._alone[-1]

    def _context(self, sight: Sight) -> BrowserContext:
        key = (sight.who, sight.scripts)
        if key not in self._contexts:
            self._contexts[key] = self._fresh(*key)
        return self._contexts[key]

    def _fresh(self, who: str, scripts: bool) -> BrowserContext:
        context = self._browser.new_context(base_url=self._scene.server.url, **self._options)
        if not scripts:
            nothing = {"content_type": "text/javascript", "body": ""}
            context.route("**/*.js", lambda route: route.fulfill(**nothing))
        if who != NOBODY:
            context.add_cookies(self._scene.cookies_of(who))  # type: ignore[arg-type]
        return context


def listen(window: Window, sight: Sight) -> None:
    """Chromium itself says on the console when a page's policy was broken. It also does when a page
    came with a status that says no, which is meant where a sight has one."""

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and f"status of {sight.status}" not in message.text:
            window.complaints.append(message.text)

    def answered(response: Response) -> None:
        if response.status >= 400 and response.status != sight.status:
            window.complaints.append(f"{response.status} {response.url}")

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left
            window.complaints.append(f"{request.failure} {request.url}")

    window.page.on("console", said)
    window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
    window.page.on("response", answered)
    window.page.on("requestfailed", failed)
