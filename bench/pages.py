"""The library in a browser, with thousands of images: when it is painted, beside a bare file server
that sends the same page as it is in the end; and what scrolling through it costs, beside scrolling
through nothing."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import asyncpg
import httpx
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import programs
from bench.database import database
from bench.measure import Table, median, percentile
from bench.server import Measured, serving
from browser.conftest import OPTIONS
from scene.crowd import Small, crowd, smalls

LIBRARY = "/app/default/upload"
SIZE = {"width": 1440, "height": 900}
ROUNDS = 9
_WARM = 2
_FAR, _SPEED = 40_000, 8_000  # pixels, and pixels a second
_MEMBER = "bench"
_SCRIPT = re.compile(r"<script\b.*?</script>\s*", re.DOTALL)
_KEPT = {"content-type", "content-encoding", "cache-control", "etag"}
_IN_SIGHT = """() => [...document.images].every((one) => {
  const box = one.getBoundingClientRect();
  return one.complete || !one.checkVisibility() || box.top > innerHeight || box.bottom < 0;
})"""
_PAINTS = """() => new Promise((done) => {
  const first = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0;
  let largest = first;
  new PerformanceObserver((list) => {
    largest = list.getEntries().at(-1).startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  requestAnimationFrame(() => setTimeout(() => done([first, largest]), 50));
})"""
_RECORD = """() => {
  window.frames_ = []; window.tasks_ = [];
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.tasks_.push(task.duration);
  }).observe({ type: "longtask" });
  let last = performance.now();
  const next = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
_TALL = "() => { document.body.style.height = '400000px'; }"


@dataclass(frozen=True, slots=True)
class Crowd:
    title: str
    count: int
    pictures: int
    side: int


CROWDS = (
    Crowd("5,000 images, small renditions of photographs", 5_000, 900, 320),
    Crowd("100,000 synthetic entries", 100_000, 200, 96),
)


@dataclass(frozen=True, slots=True)
class Scrolled:
    frames: list[float]
    tasks: list[float]
    seen: int  # pixels that it went


def run() -> list[Table]:
    executable = programs.find("chromium")
    if not executable:
        raise RuntimeError("install Chromium: python tests/programs.py chromium")
    found = []
    for each in CROWDS:
        pictures = smalls(each.side, each.pictures)
        with _library(each, pictures) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
            found.append(_measured(each, server, browser))
            browser.close()
    return found


@contextmanager
def _library(each: Crowd, pictures: list[Small]) -> Iterator[Measured]:
    with (
        database() as bench,
        serving("--no-worker", files=bench.files, SAFELIGHT_DATABASE_URL=bench.url) as server,
    ):
        asyncio.run(_fill(bench.url, each.count, pictures))
        yield server


async def _fill(url: str, count: int, pictures: list[Small]) -> None:
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        await connection.execute("SET statement_timeout = 0")
        await crowd(connection, "default", count, pictures, int(time.time() * 1000))
    finally:
        await connection.close()


def _measured(each: Crowd, server: Measured, browser: Browser) -> Table:
    table = Table(f"Pages: the library with {each.title}", "what", "value", "budget", "verdict")
    cookies = _signed_in(server)
    with _bare(server, browser, cookies) as bare:
        first, largest = _paints(browser, server.url, bare, cookies)
    for name, (ours, theirs) in (("first", first), ("largest contentful", largest)):
        table.add(
            f"{name} paint (the finished page's, of a bare server: {theirs:.0f} ms)",
            f"{ours:.0f} ms",
            "",
            "",
        )
        table.judge(f"÷ the finished page's, {name}", ours / theirs, ("≤", 2))
    nothing, library = _scrolls(browser, server, cookies)
    p95, theirs = (percentile(one.frames, 0.95) for one in (library, nothing))
    how = f"{library.seen:,} px at {_SPEED:,} px/s"
    table.add(f"a frame's p95, scrolling {how} (nothing: {theirs:.1f} ms)", f"{p95:.1f} ms", "", "")
    table.judge("÷ scrolling through nothing", p95 / theirs, ("≤", 2))
    table.add("the longest task meanwhile", f"{max(library.tasks, default=0):.0f} ms", "", "")
    table.judge("tasks of more than 50 ms", len(library.tasks), ("≤", 0), "{:.0f}")
    return table


def _signed_in(server: Measured) -> dict[str, str]:
    with server.client() as client:
        path = f"/api/organizations/default/members/{_MEMBER}"
        link = client.put(path, json={"role": "admin"}).json()["signInLink"]
    with httpx.Client(base_url=server.url, headers={"sec-fetch-site": "same-origin"}) as client:
        answer = client.post("/login", json={"code": link.partition("code=")[2]})
        assert answer.is_success, answer.text
        return dict(client.cookies)


def _window(browser: Browser, cookies: dict[str, str]) -> BrowserContext:
    """With nothing in its cache. Cookies are of a host, whatever its port."""
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce")  # type: ignore[arg-type]
    for name, value in cookies.items():
        context.add_cookies([{"name": name, "value": value, "url": "http://127.0.0.1"}])
    return context


# When it is painted


def _paints(
    browser: Browser, ours: str, bare: str, cookies: dict[str, str]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """First and largest, ours and theirs; by turns, as the machine changes its mind."""
    told: dict[str, list[list[float]]] = {ours: [], bare: []}
    for number in range(_WARM + ROUNDS):
        for base, paints in told.items():
            context = _window(browser, cookies)
            page = context.new_page()
            page.goto(base + LIBRARY)
            page.wait_for_function(_IN_SIGHT)
            seen = page.evaluate(_PAINTS)
            context.close()
            if number >= _WARM:
                paints.append(seen)
    first, largest = (
        tuple(median([seen[which] for seen in told[base]]) for base in (ours, bare))
        for which in (0, 1)
    )
    return (first[0], first[1]), (largest[0], largest[1])


@contextmanager
def _bare(server: Measured, browser: Browser, cookies: dict[str, str]) -> Iterator[str]:
    """The page as it is once its scripts are done, without them, and what it asked for: from
    memory."""
    context = _window(browser, cookies)
    page = context.new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    page.goto(server.url + LIBRARY)
    page.wait_for_function(_IN_SIGHT)
    done = _SCRIPT.sub("", page.content()).encode()
    context.close()
    files = {}
    with httpx.Client(cookies=cookies, headers={"accept-encoding": "identity"}) as client:
        for url in asked:
            if url.startswith(server.url):
                parts = urlsplit(url)
                answer = client.get(url)
                kept = {name: value for name, value in answer.headers.items() if name in _KEPT}
                body = done if parts.path == LIBRARY else answer.content
                files[f"{parts.path}?{parts.query}"] = (kept, body)
    handler = type("Bare", (_Bare,), {"files": files})
    http = _Files(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()


class _Files(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A window was closed while it got something."""


class _Bare(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: dict[str, tuple[dict[str, str], bytes]]

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        headers, body = self.files.get(f"{path}?{query}", ({}, b""))
        self.send_response(200 if headers else 404)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# Scrolling


def _scrolls(
    browser: Browser, server: Measured, cookies: dict[str, str]
) -> tuple[Scrolled, Scrolled]:
    """Through nothing, and through the library."""
    context = _window(browser, cookies)
    page = context.new_page()
    page.goto("about:blank")
    page.evaluate(_TALL)
    nothing = _scrolled(page)
    page.goto(server.url + LIBRARY)
    page.wait_for_function(_IN_SIGHT)
    library = _scrolled(page)
    context.close()
    return nothing, library


def _scrolled(page: Page) -> Scrolled:
    """Down and further down, as fast as a wheel that was spun."""
    session = page.context.new_cdp_session(page)
    page.evaluate(_RECORD)
    gesture = {"x": 900, "y": 500, "yDistance": -_FAR, "speed": _SPEED}
    session.send("Input.synthesizeScrollGesture", {**gesture, "gestureSourceType": "mouse"})
    frames, tasks, seen = page.evaluate("() => [window.frames_, window.tasks_, scrollY]")
    return Scrolled(frames, tasks, int(seen))


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
