"""Uploads go on whatever happens to the server, the session or the page, and each arrives once."""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit, load, sign_in_link
from conftest import reachable_directory
from harness import Server, await_ready, launch, picture, running
from safelight.objects.keys import InvalidName, check_name

LIBRARY = "/app/default/upload"
PHOTOS = Path(__file__).parents[1] / "photos"
MOST = 200_000
DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True,
    "reduced_motion": "reduce",
}  # fmt: skip
AWAY = ["net::ERR_", "WebSocket connection", "status of 401", "status of 503"]
REFUSED = "the server responded with a status of 400"
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With a limit that a test can exceed."""
    with (
        reachable_directory() as directory,
        running(directory / "data", SAFELIGHT_MAX_UPLOAD_BYTES=str(MOST)) as server,
    ):
        yield server


def restart(server: Server) -> None:
    """Killed, and there again at the same address with the same data."""
    server.kill()
    port = server.url.rpartition(":")[2]
    settings = {"SAFELIGHT_MAX_UPLOAD_BYTES": str(MOST)}
    again = await_ready(launch(server.data_dir, "--port", port, environment=settings))
    server.process, server.lines = again.process, again.lines  # the fixture stops this one


def photo(seed: str, size: int = 2_000) -> bytes:
    """A picture like no other, and a few bytes behind its end."""
    colour = "#" + hashlib.sha256(seed.encode()).hexdigest()[:6]
    return picture(colour=colour) + random.Random(seed).randbytes(size)


def choose(page: Page, *names: str, size: int = 2_000) -> None:
    give(page, {name: photo(name, size) for name in names})


def give(page: Page, files: dict[str, bytes]) -> None:
    many = [{"name": n, "mimeType": "image/jpeg", "buffer": data} for n, data in files.items()]
    page.set_input_files("#file", many)  # type: ignore[arg-type]  # dicts as good as its own


def tray(page: Page) -> Locator:
    return page.get_by_role("region", name="Uploads")


def titled(page: Page, words: str) -> None:
    expect(page.locator(".tray__title")).to_have_text(words)


def received(server: Server, prefix: str) -> Counter[str]:
    """How often each name was received, ever."""
    with server.client() as client:
        items: list[dict[str, Any]] = []
        path = "/api/organizations/default/images?limit=200"
        items = client.get(path).json()["items"]
    return Counter(item["name"] for item in items if item["name"].startswith(prefix))


def at_least(page: Page, settled: int) -> None:
    page.wait_for_function(
        "(n) => parseInt(document.querySelector('.tray__figures').textContent) >= n",
        arg=settled,
        timeout=PATIENCE,
    )


def end_the_session(page: Page) -> None:
    """While nothing is on its way: any answer brings the cookie again."""
    page.context.set_offline(True)
    page.context.clear_cookies()
    page.context.set_offline(False)


class Gate:
    """Before which uploads wait, as over a line that stands still."""

    def __init__(self, page: Page) -> None:
        self.held: list[Route] = []
        self.is_open = False
        page.route("**/api/upload?*", self._pass)

    def open(self) -> None:
        self.is_open = True

    def drop(self) -> None:
        """Those that wait are lost; what comes later passes."""
        self.open()
        for route in self.held:
            route.abort()

    def _pass(self, route: Route) -> None:
        if self.is_open:
            route.continue_()
        else:
            self.held.append(route)


class Line:
    """As ordinary ones are: sixty images take a few seconds."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Network.enable")

    def carry(self, bytes_a_second: int) -> None:
        conditions = {"offline": False, "latency": 20, "downloadThroughput": -1}
        there = {"uploadThroughput": bytes_a_second}
        self._session.send("Network.emulateNetworkConditions", conditions | there)


def test_from_choosing_three_to_their_labels(visit: Visit) -> None:
    page = visit(**DESK)
    names = ("cat", "coffee", "daisy")
    page.set_input_files("#file", [PHOTOS / f"{name}.jpg" for name in names])
    titled(page, "All 3 are in the library")
    for name in names:
        labelled = f'.shot[data-name="{name}.jpg"][data-state="labelled"]'
        expect(page.locator(labelled)).to_have_count(1)


def test_sixty_images_through_two_restarts_and_the_end_of_a_session(
    visit: Visit, server: Server, console: Console
) -> None:
    console.expected += AWAY
    page = visit(LIBRARY, **DESK)
    line = Line(page)
    line.carry(800_000)
    names = [f"sixty-{number}.jpg" for number in range(60)]
    choose(page, *names, size=30_000)
    at_least(page, 8)
    restart(server)
    line.carry(200_000)
    at_least(page, 20)
    end_the_session(page)
    line.carry(200_000)
    titled(page, "You are signed out")
    assert look(page) == []
    other = page.context.new_page()
    other.goto(sign_in_link(server))
    other.get_by_role("button", name="Sign in as operator").click()
    at_least(page, 35)
    restart(server)
    line.carry(10_000_000)
    titled(page, "All 60 are in the library")
    assert received(server, "sixty-") == Counter(names)


def test_a_lost_answer_and_a_reload_in_the_middle(
    visit: Visit, server: Server, console: Console
) -> None:
    console.expected += AWAY
    page = visit(LIBRARY, **DESK)

    def lose(route: Route) -> None:
        """The server has it, and the page never hears of it."""
        lost.append(route)
        if len(lost) > 3:
            route.continue_()
            return
        route.fetch()
        page.evaluate("() => (window.lost = (window.lost ?? 0) + 1)")
        if is_told:
            route.abort()

    lost: list[Route] = []
    is_told = False

    page.route("**/api/upload?*", lose)
    names = [f"reload-{number}.jpg" for number in range(5)]
    choose(page, *names)
    page.wait_for_function("() => window.lost === 3")
    page.reload()
    titled(page, "All 5 are in the library")
    assert page.evaluate("() => window.lost") is None
    assert received(server, "reload-") == Counter(names)
    assert page.evaluate(KEPT) == 0

    lost.clear()
    is_told = True  # that the line broke
    choose(page, "lost.jpg")
    titled(page, "It is in the library")
    assert received(server, "lost") == Counter({"lost.jpg": 1})


KEPT = """() => new Promise((resolve) => {
  const opening = indexedDB.open("safelight-uploads");
  opening.onsuccess = () => {
    const files = opening.result.transaction("files").objectStore("files").count();
    files.onsuccess = () => resolve(files.result);
  };
})"""


def test_what_is_here_already_is_said_and_sent_only_when_wanted(
    visit: Visit, server: Server
) -> None:
    assert server.upload(photo("first"), "first.jpg").status_code == 201
    page = visit(LIBRARY, **DESK)
    give(page, {"again.jpg": photo("first"), "one.jpg": photo("twins"), "two.jpg": photo("twins")})
    titled(page, "All 3 are in the library")
    group = tray(page).get_by_role("listitem").filter(has_text="2 are already in the library")
    group.locator("summary").click()
    expect(group.get_by_role("link", name="first.jpg")).to_have_attribute(
        "href", "/app/default/images?name=first.jpg"
    )
    expect(group.get_by_role("link", name="one.jpg")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    assert received(server, "again") == Counter()
    group.get_by_role("button", name="Send anyway").click()
    expect(group).to_have_count(0)
    titled(page, "All 3 are in the library")
    assert received(server, "again") + received(server, "two") == Counter(["again.jpg", "two.jpg"])
    assert page.evaluate(KEPT) == 0
    page.get_by_role("button", name="Clear uploads").click()
    expect(tray(page)).to_be_hidden()
    expect(page.locator("#file")).to_be_focused()


def test_a_copy_that_is_wanted_is_sent_once_as_well(
    visit: Visit, server: Server, console: Console
) -> None:
    console.expected += AWAY
    assert server.upload(photo("copy"), "copy.jpg").status_code == 201
    page = visit(LIBRARY, **DESK)
    choose(page, "copy")
    titled(page, "It is in the library")
    lost: list[Route] = []

    def lose(route: Route) -> None:
        lost.append(route)
        route.fetch()
        route.abort()

    page.route("**/api/upload?*", lose)
    page.get_by_role("button", name="Send anyway").click()
    expect(page.locator(".tray-group")).to_have_count(0)
    titled(page, "It is in the library")
    assert len(lost) == 1
    assert received(server, "copy") == Counter(["copy.jpg", "copy"])


def test_refusals_by_reason_in_the_servers_words(
    visit: Visit, server: Server, console: Console
) -> None:
    console.expected.append(REFUSED)
    page = visit(LIBRARY, **DESK)
    tiffs = {f"scan-{number}.jpg": b"II*\0" + bytes([number] * 99) for number in range(12)}
    give(page, {**tiffs, "none.jpg": b"", "huge.jpg": photo("huge", MOST), "fine.jpg": photo("f")})
    titled(page, "1 of 15 is in the library")
    groups = page.locator(".tray-group")
    expect(groups).to_have_count(3)
    scans = groups.filter(has_text="12 files: This is a TIFF image, which is not accepted.")
    scans.locator("summary").click()
    expect(scans.get_by_role("listitem")).to_have_count(12)
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    for name, data in (("none.jpg", b""), ("huge.jpg", photo("huge", MOST))):
        said = server.upload(data, name).json()["error"]
        expect(groups.filter(has_text=f"{name}: {said}")).to_have_count(1)
        expect(groups.filter(has_text=name).get_by_role("button", name="Try again")).to_be_hidden()
    again = iter(range(12))
    with page.expect_response(lambda it: "/api/upload?" in it.url and next(again) == 11):
        scans.get_by_role("button", name="Try again").click()
    titled(page, "1 of 15 is in the library")
    expect(scans).to_have_count(1)
    scans.get_by_role("button", name="Dismiss").click()
    titled(page, "1 of 3 is in the library")
    expect(page.locator(".tray__fold")).to_be_focused()


def test_pausing_cancelling_and_undoing_by_keyboard(visit: Visit, server: Server) -> None:
    page = visit(LIBRARY, **DESK)
    gate = Gate(page)
    names = [f"keys-{number}.jpg" for number in range(5)]
    choose(page, *names)
    expect(page.locator(".tray-row[data-sending]")).to_have_count(3)
    expect(page.locator(".tray-row")).to_have_count(5)
    page.get_by_role("button", name="Pause uploads").focus()
    page.keyboard.press("Enter")
    titled(page, "Paused")
    expect(page.locator(".tray-row[data-sending]")).to_have_count(0)
    expect(page.locator(".tray__fold")).to_be_focused()
    page.reload()
    titled(page, "Paused")
    page.get_by_role("button", name="Cancel keys-1.jpg").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".tray-row")).to_have_count(4)
    page.get_by_role("button", name="Cancel all").press("Enter")
    expect(tray(page)).to_be_hidden()
    page.get_by_role("status").get_by_role("button", name="Undo").last.press("Enter")
    expect(page.locator(".tray-row")).to_have_count(4)
    gate.open()
    page.get_by_role("button", name="Resume uploads").press("Enter")
    titled(page, "All 4 are in the library")
    assert received(server, "keys-") == Counter(names) - Counter(["keys-1.jpg"])
    fold = page.locator(".tray__fold")
    fold.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".tray__body")).to_be_hidden()


@pytest.mark.parametrize("locks", [True, False])
def test_one_of_two_pages_sends_and_both_show_it(
    visit: Visit, server: Server, *, locks: bool
) -> None:
    """Without the browser's locks too, which a page that came by plain http does not have."""
    first = visit(LIBRARY, **DESK)
    pages = [first, first.context.new_page()]
    asked: list[Page] = []

    def note(request: Request) -> None:
        if "/api/upload?" in request.url:
            asked.append(request.frame.page)

    first.context.on("request", note)
    for page in pages:
        if not locks:
            page.add_init_script("delete Navigator.prototype.locks")
        page.goto(LIBRARY)
        page.wait_for_load_state()
    names = [f"pages-{locks}-{number}.jpg" for number in range(5)]
    choose(pages[1], *names[:2])
    for page in pages:
        titled(page, "All 2 are in the library")
    first.close()
    choose(pages[1], *names[2:])
    titled(pages[1], "All 3 are in the library")
    pages[1].close()
    assert sorted(received(server, f"pages-{locks}")) == names
    assert len(set(asked[:2])) == 1


def test_nobody_sends_what_another_chose(visit: Visit, server: Server, console: Console) -> None:
    console.expected += AWAY
    with server.client() as client:
        made = client.put("/api/organizations/default/members/dora", json={"role": "member"})
    link = made.json()["signInLink"]
    page = visit(LIBRARY, **DESK)
    gate = Gate(page)
    choose(page, "mine.jpg")
    expect(page.locator(".tray-row[data-sending]")).to_have_count(1)
    cookies = page.context.cookies()
    page.context.clear_cookies()
    other = page.context.new_page()
    other.goto(link)
    other.get_by_role("button", name="Accept").click()
    gate.drop()
    titled(page, "Somebody else is signed in")
    expect(page.get_by_role("link", name="Sign in again").last).to_be_visible()
    other.goto(LIBRARY)
    choose(other, "hers.jpg")
    titled(other, "It is in the library")
    page.context.clear_cookies()
    page.context.add_cookies(cookies)  # type: ignore[arg-type]  # as it gave them
    titled(page, "It is in the library")
    assert received(server, "mine") == Counter(["mine.jpg"])


def test_a_browser_without_room_says_to_stay(visit: Visit, server: Server) -> None:
    page = visit(LIBRARY, **DESK)
    page.evaluate(FULL)
    gate = Gate(page)
    choose(page, "room-1.jpg", "room-2.jpg")
    expect(page.get_by_text("leave this page open until they are sent")).to_be_visible()
    assert page.evaluate(LEAVING), "the browser asks before it leaves"
    gate.open()
    page.get_by_role("button", name="Pause uploads").click()
    page.get_by_role("button", name="Resume uploads").click()
    titled(page, "All 2 are in the library")
    assert received(server, "room") == Counter(["room-1.jpg", "room-2.jpg"])
    assert not page.evaluate(LEAVING)


FULL = """() => {
  IDBObjectStore.prototype.put = () => { throw new DOMException("", "QuotaExceededError"); };
}"""
LEAVING = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"


def test_dropped_anywhere_pasted_and_out_of_a_folder(
    visit: Visit, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = visit(LIBRARY, **DESK)
    drag = page.evaluate_handle(CARRY, ["dropped.jpg", list(photo("dropped"))])
    page.dispatch_event("h1", "dragover", {"dataTransfer": drag})
    expect(page.get_by_text("Drop to upload to default")).to_be_visible()
    assert look(page) == []
    page.dispatch_event("h1", "drop", {"dataTransfer": drag})
    expect(page.locator(".drop")).to_be_hidden()
    titled(page, "It is in the library")
    clipboard = page.evaluate_handle(CARRY, ["image.png", list(photo("pasted"))])
    page.evaluate(PASTE, clipboard)
    expect(page.locator(".shot", has_text="Pasted")).to_have_count(1)
    folder = tmp_path_factory.mktemp("folder") / "trip"
    for path in ("day 1/IMG_1.jpg", "day 2/IMG_1.jpg", "notes.txt", ".hidden"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(photo(path))
    page.set_input_files("#folder", folder)
    titled(page, "All 2 are in the library")
    names = ["trip › day 1 › IMG_1.jpg", "trip › day 2 › IMG_1.jpg"]
    assert sorted(received(server, "trip")) == names


PASTE = """(clipboardData) => document.body.dispatchEvent(
  new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }))"""
CARRY = """([name, bytes]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
  return carried;
}"""


def test_waiting_is_a_state_of_the_tray(visit: Visit, console: Console) -> None:
    console.expected += [*AWAY, "status of 429", "status of 507", "status of 502"]
    page = visit(LIBRARY, **PHONE)
    answers: list[dict[str, Any]] = [
        {"status": 429, "json": {"error": "Slower.", "code": "RATE_LIMITED"}, "headers": {"retry-after": "1"}},
        {"status": 502, "body": "<h1>Bad gateway</h1>"},
        {"status": 507, "json": {"error": "No room left.", "code": "QUOTA_EXCEEDED"}},
    ]  # fmt: skip

    def answer(route: Route) -> None:
        if answers:
            route.fulfill(**answers.pop(0))
        else:
            route.continue_()

    page.route("**/api/upload?*", answer)
    choose(page, "waits.jpg")
    titled(page, "The server asks for a rest")
    page.locator(".tray__fold").tap()
    expect(page.get_by_text("Slower. It goes on by itself")).to_be_visible()
    assert look(page) == []
    titled(page, "Waiting for the server…")
    titled(page, "Stopped")
    expect(page.get_by_text("No room left.")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    small = page.locator(".tray__panel :is(button, a):visible").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect()).filter((box) => box.height < 44)"
    )
    assert small == []
    page.get_by_role("button", name="Go on").tap()
    titled(page, "It is in the library")


def test_names_out_of_folders_are_names_the_server_takes(visit: Visit) -> None:
    paths = [
        "a/b.jpg", "a//b.jpg", "./.a/.b.jpg", " a / b .jpg ", "a\\b/c.jpg", "a\u200b/\u202eb.jpg",
        "e\u0301/a\u0308.jpg", "\u00a0a\u3000/b\tc.jpg", f"{'x' * 200}/{'y' * 100}.jpg",
        f"{'ä' * 100}/{'ö' * 100}/ü.jpg", f"a/{'z' * 300}.jpg", "/", "././.", "\u0000/\u0007",
    ]  # fmt: skip
    page = visit()
    load(page, "files", "libraryName")
    names = page.evaluate("(paths) => paths.map(window.tested.libraryName)", paths)
    assert names[:3] == ["a › b.jpg", "a › b.jpg", "a › b.jpg"]
    assert [name for name in names if name is not None and not is_taken(name)] == []
    assert names[8] == f"{'y' * 100}.jpg", "outer folders go first"
    assert names[10:] == [None] * 4, "the file's own name is cleaned by the server"


def is_taken(name: str) -> bool:
    try:
        check_name(name)
    except InvalidName:
        return False
    return True
