"""The upload page, driven as people drive it. Each test has image names of its own."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Response, WebSocketRoute, expect

from browser.conftest import PATIENCE, Console, Visit, load
from harness import Server, await_ready, launch, picture
from safelight.objects.keys import InvalidName, check_name

PHOTOS = Path(__file__).parents[1] / "photos"
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def shot(page: Page, name: str) -> Locator:
    return page.locator(f'.shot[data-name="{name}"]')


def labelled(page: Page, *names: str) -> None:
    for name in names:
        expect(shot(page, name)).to_have_attribute("data-state", "labelled")


def send(server: Server, *names: str) -> None:
    for name in names:
        assert server.upload(picture(), name).status_code == 201


def test_from_home_to_three_labelled_photographs(visit: Visit) -> None:
    page = visit("/")
    page.get_by_role("navigation").get_by_role("link", name="Library").click()
    expect(page.get_by_role("heading", name="Library", exact=True)).to_be_visible()
    page.evaluate(
        """() => {
          window.states = {};
          const note = (shot) => (window.states[shot.dataset.name] ??= []).push(shot.dataset.state);
          new MutationObserver((changes) => changes.forEach(({ target, addedNodes }) => {
            if (target.matches(".shot")) note(target);
            addedNodes.forEach((node) => node.matches?.(".shot") && note(node));
          })).observe(document.querySelector("image-grid"),
            { subtree: true, childList: true, attributeFilter: ["data-state"] });
        }"""
    )
    expect(page.locator("#file[multiple]")).to_have_count(1)
    page.set_input_files("#file", [PHOTOS / f"{name}.jpg" for name in ("cat", "coffee", "daisy")])
    labelled(page, "cat.jpg", "coffee.jpg", "daisy.jpg")
    expect(shot(page, "daisy.jpg")).to_contain_text(re.compile(r"Daisy\s+\d+ %"))
    expect(shot(page, "daisy.jpg").locator("img")).to_have_js_property("naturalWidth", 320)
    expect(page.locator(".shot__tint")).to_have_count(0)
    expect(page.locator(".tray__title")).to_have_text("All 3 are in the library")
    expect(page.locator("[data-news]")).not_to_be_empty()
    order = ["received", "stored", "classifying", "labelled"]
    for seen in page.evaluate("() => window.states").values():  # gone, had the page been reloaded
        assert seen[-1] == "labelled"
        assert [order.index(state) for state in seen] == sorted(
            order.index(state) for state in seen
        )


def test_deleting_by_keyboard(visit: Visit, server: Server) -> None:
    send(server, "stays.jpg")
    page = visit()
    labelled(page, "stays.jpg")
    send(server, "goes.jpg")
    labelled(page, "goes.jpg")
    delete = shot(page, "goes.jpg").get_by_role("link", name="Delete goes.jpg")
    dialog = page.get_by_role("dialog", name="Delete this image?")
    delete.focus()
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("goes.jpg is deleted for good")
    expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(delete).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(shot(page, "goes.jpg")).to_have_count(0)
    expect(shot(page, "stays.jpg").get_by_role("link", name="Delete stays.jpg")).to_be_focused()
    page.reload()
    expect(shot(page, "goes.jpg")).to_have_count(0)


def test_a_deletion_elsewhere_is_seen_here(visit: Visit, server: Server) -> None:
    send(server, "elsewhere.jpg")
    page = visit()
    labelled(page, "elsewhere.jpg")
    with server.client() as client:
        client.delete("/api/organizations/default/uploads/elsewhere.jpg")
    expect(shot(page, "elsewhere.jpg")).to_have_count(0)


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


def test_without_a_socket_the_page_polls(visit: Visit, server: Server) -> None:
    page = visit("/")
    page.route_web_socket("**/live?*", refuse)
    page.goto("/app/default/upload")
    expect(page.locator("live-feed")).to_have_attribute("data-state", "polling")
    expect(page.locator("live-feed")).to_be_empty()
    send(server, "polled.jpg")
    labelled(page, "polled.jpg")


def refuse(socket: WebSocketRoute) -> None:
    socket.close()


def test_filters_hold_for_what_comes_live(visit: Visit, server: Server) -> None:
    page = visit("/app/default/upload?q=wanted")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    send(server, "other.jpg", "wanted.jpg")
    labelled(page, "wanted.jpg")
    expect(page.get_by_text("Nothing matches")).to_be_hidden()
    expect(shot(page, "other.jpg")).to_have_count(0)


def test_older_images_on_demand(visit: Visit, server: Server) -> None:
    with server.client() as client:
        for number in range(50):
            client.post("/api/upload", files={"file": (f"older-{number}.jpg", picture())})
    page = visit("/app/default/upload?q=older")
    labelled(page, "older-49.jpg", "older-5.jpg")
    page.reload()
    expect(page.locator(".shot")).to_have_count(48)
    page.get_by_role("link", name="Show older images").click()
    expect(page.locator(".shot")).to_have_count(50)
    expect(page.get_by_role("link", name="Show older images")).to_be_hidden()
    expect(page.locator(".shot").nth(48).locator("a").first).to_be_focused()


def test_without_scripts_everything_is_a_form(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "plain.jpg"
    file.write_bytes(picture())
    page = visit(java_script_enabled=False)
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text("plain.jpg was received.")).to_be_visible()
    page.fill("#q", "plain")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".shot")).to_have_count(1)
    page.get_by_role("link", name="Delete plain.jpg").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("Deleted.")).to_be_visible()


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_wider_than_the_window(visit: Visit, server: Server, width: int) -> None:
    send(server, f"{'long-' * 20}{width}.jpg", f"{'W' * 120}{width}.jpg")
    page = visit(
        viewport={"width": width, "height": 700}, color_scheme="dark", reduced_motion="reduce"
    )
    labelled(page, f"{'W' * 120}{width}.jpg")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_every_page_is_quiet(visit: Visit, server: Server, console: Console) -> None:
    console.expected.append("the server responded with a status of 404")
    send(server, "quiet.jpg")
    page = visit()

    def hear(answer: Response) -> None:
        if answer.status not in {200, 303, 304, 404}:
            console.said.append(f"{answer.status} {answer.url}")

    page.on("response", hear)
    labelled(page, "quiet.jpg")
    for path in ("/", "/account/password", "/login", "/app/default/upload?q=quiet&status=done",
                 "/app/default/upload/delete?name=quiet.jpg", "/nowhere"):  # fmt: skip
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)


def test_a_session_that_ended_is_said_so(visit: Visit, console: Console) -> None:
    console.expected += ["WebSocket connection", "the server responded with a status of 401"]
    page = visit(locale="en-GB")  # in a window of its own
    expect(page.locator("live-feed")).to_have_attribute("data-state", "live")
    page.context.clear_cookies()
    page.evaluate(
        "() => document.body.append(document.querySelector('live-feed'))"
    )  # connects anew
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()


def test_live_goes_on_after_the_server_was_killed(
    visit: Visit, server: Server, console: Console
) -> None:
    """Last in the file: it replaces the server that the tests share."""
    console.expected += ["WebSocket connection", "net::ERR_"]
    page = visit()
    send(server, "before.jpg")
    labelled(page, "before.jpg")
    page.evaluate("() => (window.stayed = true)")
    server.kill()
    expect(page.locator("live-feed")).to_have_text("Reconnecting…")
    port = server.url.rpartition(":")[2]
    again = await_ready(launch(server.data_dir, "--port", port))
    server.process, server.lines = again.process, again.lines  # the fixture stops this one
    send(server, "after.jpg")
    labelled(page, "after.jpg")
    expect(page.locator("live-feed")).to_be_empty()
    expect(page.locator("live-feed")).to_have_attribute("data-state", "live")
    assert page.evaluate("() => window.stayed")
