"""A real server, a real Chromium, and an ear on its console: any complaint fails the test."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    StorageState,
    sync_playwright,
)

import programs
import safelight.web
from browser.windows import Windows
from conftest import reachable_directory
from harness import Server, eventually, running
from safelight.web.bundle import scripts
from scene.scene import Scene, staged

LINK = re.compile(r"Sign in once with this link:\s+(\S+)")
STATIC = Path(safelight.web.__file__).parent / "static"
PATIENCE = 30_000  # milliseconds
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Console:
    """What a page complained of. A test names the complaints it provokes."""

    said: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.said.append(message.text)

    def complaints(self) -> list[str]:
        return [text for text in self.said if not any(part in text for part in self.expected)]


# Of a module, not of the session: while Playwright runs, no other test can have an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = programs.find("chromium")
    assert executable, "install Chromium: python tests/programs.py chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with reachable_directory() as directory, running(directory / "data") as server:
        yield server


@pytest.fixture(scope="module")
def signed_in(browser: Browser, server: Server) -> StorageState:
    """The cookies of somebody who came by the printed link."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(sign_in_link(server))
    page.get_by_role("button", name="Sign in as operator").click()
    page.get_by_role("link", name="Not now").click()
    assert page.url == f"{server.url}/app/default/upload"
    state = context.storage_state()
    context.close()
    return state


def load(page: Page, module: str, *names: str) -> None:
    """What one of our modules exports, for a test to call by itself as `window.tested`."""
    files = {str(path.relative_to(STATIC)): path.read_text() for path in STATIC.rglob("lib/*.js")}
    wanted = ", ".join(names)
    files["js/main.js"] = (
        f'import {{ {wanted} }} from "./lib/{module}.js";\nwindow.tested = {{ {wanted} }};\n'
    )
    page.evaluate(f"() => {{ {scripts(files)['app.js']} }}")


@pytest.fixture
def console() -> Console:
    return Console()


@pytest.fixture(scope="module")
def window(browser: Browser, server: Server, signed_in: StorageState) -> Iterator[BrowserContext]:
    """Shared, so that style sheets and scripts are fetched once."""
    context = browser.new_context(base_url=server.url, storage_state=signed_in)
    yield context
    context.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(
    browser: Browser,
    server: Server,
    signed_in: StorageState,
    window: BrowserContext,
    console: Console,
) -> Iterator[Visit]:
    """Opens a path of the server, signed in; with options, in a window of its own."""
    opened: list[Page | BrowserContext] = []

    def open_page(path: str = "/app/default/upload", **options: Any) -> Page:
        context = window
        if options:
            context = browser.new_context(base_url=server.url, storage_state=signed_in, **options)
            opened.append(context)
        page = context.new_page()
        opened.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("console", console.hear)
        page.on("pageerror", lambda error: console.said.append(str(error)))
        page.goto(path)
        return page

    yield open_page
    for thing in reversed(opened):
        thing.close()
    assert console.complaints() == []


def sign_in_link(server: Server) -> str:
    def printed() -> str | None:
        return next((found[1] for line in server.lines if (found := LINK.search(line))), None)

    link: str = eventually(printed)
    return link


@pytest.fixture(scope="package")
def scene() -> Iterator[Scene]:
    """For those that look at pages, and change nothing that others would miss."""
    with staged() as scene:
        yield scene


@pytest.fixture(scope="module")
def windows(browser: Browser, scene: Scene) -> Iterator[Windows]:
    windows = Windows(browser, scene)
    yield windows
    windows.close()
