"""A whole server: what it has loaded after it did everything there is to do with images, and what
hostile ones leave behind."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from classification.images import lying_avif, photo, tiny_webp
from harness import Server, eventually, launch, running
from headers.heif_files import av1, tiled
from objects.shared import shared_url
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.tokens import Tokens
from safelight.sandbox.lockdown import offered
from safelight.settings import load
from safelight.testing.base import open_base

__all__ = ["shared_url"]

MIB = 1024 * 1024
IN_WORK = {None, "pending", "running"}
DECODERS = re.compile(r"PIL|numpy|onnxruntime|/av[./]|pi_heif|libav|openblas|libheif|libvpx")
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_url: str) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    with running(directory, SAFELIGHT_DATABASE_URL=shared_url) as server:
        yield server


def mapped(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def entry(server: Server, name: str) -> dict[str, Any]:
    with server.client() as client:
        found: dict[str, Any] = client.get(f"/api/organizations/default/uploads/{name}").json()
    return found


def labelled(server: Server, content: bytes, name: str) -> dict[str, Any]:
    assert server.upload(content, name).status_code == 201
    eventually(lambda: entry(server, name).get("classificationStatus") in {"done", "failed"}, 60)
    return entry(server, name)


def test_a_server_has_no_decoder_after_all_its_work(server: Server) -> None:
    assert labelled(server, photo("cat"), "cat.jpg")["classificationStatus"] == "done"
    with server.client() as client:
        wanted = {"model": "studio/horizon", "input": {"prompt": "sea", "width": 64, "height": 64}}
        made = client.post("/generations", json=wanted).json()
        eventually(lambda: client.get(f"/generations/{made['id']}").json()["completedAt"], 60)
        body = {"source": {"upload": "cat.jpg"}}
        scanned = client.post("/api/v1/submissions", json=body).json()
        path = f"/api/v1/submissions/{scanned['id']}"
        eventually(lambda: client.get(path).json()["state"] == "PUBLISHED", 60)
    assert [line for line in mapped(server.process.pid) if DECODERS.search(line)] == []
    children = [one for one in psutil.Process(server.process.pid).children() if _is_child(one)]
    assert children
    assert any(DECODERS.search(line) for one in children for line in mapped(one.pid))


PADDING = bytes(2500)  # with it, a file is large enough for what it unpacks to
HOSTILE = {
    "tiny.webp": tiny_webp(10_000, 10_000) + PADDING,
    "grid.avif": tiled(av1(1000, 1000), 9, 10, (9000, 10_000), tile_claims=(1000, 1000)) + PADDING,
}
SEEN_THROUGH = {
    "tiny.webp": tiny_webp(10_000, 10_000),
    "liar.avif": lying_avif((4000, 4000)),
    "liar-grid.avif": tiled(av1(1000, 1000), 9, 10, (64, 64), tile_claims=(64, 64)) + PADDING,
}


@pytest.fixture(scope="module")
def bystander(server: Server, shared_url: str) -> Iterator[httpx.Client]:
    """Somebody of another organization."""

    async def token() -> str:
        async with open_base(load(), shared_url) as base:
            await Members(base.units, base.ids).make_organization("quiet")
            tokens, grant = Tokens(base.units, base.ids), Grant(Role.VIEWER, operator=False)
            return (await tokens.make("quiet", grant, name="t", maker=None))[1]

    with server.client(asyncio.run(token())) as client:
        yield client


def longest_wait(client: httpx.Client, looks: int, going_on: Callable[[], bool]) -> float:
    """Of some looks, and of more for as long as something goes on."""
    longest = 0.0
    while looks > 0 or going_on():
        answer = client.get("/api/organizations/quiet/uploads")
        assert answer.status_code == 200, answer.text
        longest, looks = max(longest, answer.elapsed.total_seconds()), looks - 1
    return longest


def test_hostile_images_leave_nothing_in_the_server(
    server: Server, bystander: httpx.Client
) -> None:
    """A few kilobytes that unpack to 90 megapixels and more: a child's trouble, and nobody else's."""
    labelled(server, photo("coffee"), "coffee.jpg")
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    usual = longest_wait(bystander, 50, lambda: False)
    for name, content in HOSTILE.items():
        assert server.upload(content, name).status_code == 201

    def at_work() -> bool:
        return any(entry(server, name).get("classificationStatus") in IN_WORK for name in HOSTILE)

    assert longest_wait(bystander, 50, at_work) < max(50 * usual, 5)  # nobody waits for it to end
    assert labelled(server, photo("daisy"), "daisy.jpg")["classificationStatus"] == "done"
    assert process.memory_info().rss < before + 50 * MIB


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_what_is_seen_through_at_the_door_reaches_no_child(server: Server, name: str) -> None:
    answer = server.upload(SEEN_THROUGH[name], name)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_FILE_TYPE")


def test_what_the_kernel_lacks_is_told_at_start_and_when_asked(server: Server) -> None:
    lacking = offered().missing
    assert [line["lacking"] for line in server.logged("images are opened in children")] == [lacking]
    with server.client(token=None) as client:
        assert client.get("/readyz").json()["children"] == {"lacking": lacking}
    labelled(server, photo("cat"), "again.jpg")
    assert [line["lacking"] for line in server.logged("a child is locked")] == [lacking]


@pytest.mark.parametrize("content", [None, b"not a model"], ids=["missing", "unfit"])
def test_a_network_that_cannot_be_used_stops_the_start(
    tmp_path: Path, database_url: str, content: bytes | None
) -> None:
    if content:
        (tmp_path / "net.onnx").write_bytes(content)
    refused = launch(
        tmp_path / "data",
        environment={
            "SAFELIGHT_DATABASE_URL": database_url,
            "SAFELIGHT_CLASSIFIER": "onnx",
            "SAFELIGHT_ONNX_MODEL": str(tmp_path / "net.onnx"),
        },
    )
    said, _ = refused.process.communicate(timeout=60)
    assert refused.process.returncode == 2
    assert "SAFELIGHT_ONNX_MODEL" in said
    assert "Traceback" not in said


def _is_child(process: psutil.Process) -> bool:
    return any("safelight.sandbox.child" in part for part in process.cmdline())
