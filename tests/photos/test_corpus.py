"""A hundred real photographs through a real server, and through the children that scan them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import eventually, running
from photos.corpus import Photo, corpus
from photos.refused import ADVICE, Refused, refused, undecodable
from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import set_up
from safelight.sandbox.protocol import Inspection, Rendition
from safelight.sandbox.rendering import render

BOUNDS = {"max_pixels": 10**8, "max_frames": 1000, "max_total_pixels": 10**9}
UPLOADS = "/api/organizations/default/uploads"


def test_there_are_a_hundred_and_each_is_another() -> None:
    assert len(corpus()) >= 100
    assert len({photo.data for photo in corpus()}) == len(corpus())
    assert {photo.content_type for photo in corpus()} == {
        f"image/{kind}" for kind in ("jpeg", "png", "webp", "gif", "avif", "heic")
    }


def test_making_them_leaves_this_process_in_line() -> None:
    corpus()
    assert os.sched_getscheduler(0) == os.sched_getscheduler(os.getppid())


def test_each_is_accepted_and_labelled(tmp_path: Path, database_url: str) -> None:
    with (
        running(tmp_path, SAFELIGHT_DATABASE_URL=database_url) as server,
        server.client() as client,
    ):
        refused = dict(_sent(client))
        assert refused == {}

        def labelled() -> bool:
            left = dict(_unlabelled(client))
            assert set(left.values()) != {"failed"}, left
            return left == {}

        eventually(labelled, 120)


def test_each_of_the_others_is_refused_with_advice(tmp_path: Path, database_url: str) -> None:
    with (
        running(tmp_path, SAFELIGHT_DATABASE_URL=database_url) as server,
        server.client() as client,
    ):
        for file in refused():
            answer = server.upload(file.data).json()
            _is_advice(answer["code"], answer["error"], file)
        for file in undecodable():
            assert server.upload(file.data, file.name).status_code == 201

        def failures() -> dict[str, Any]:
            items = client.get(UPLOADS).json()["items"]
            return {item["name"]: item["failure"] for item in items if item.get("failure")}

        eventually(lambda: len(failures()) == len(undecodable()), 60)
        for file in undecodable():
            failure = failures()[file.name]
            _is_advice(failure["code"], failure["message"], file)

        def decoders() -> list[str]:
            return [line["decoder"] for line in server.logged("an image cannot be decoded")]

        eventually(lambda: len(decoders()) == len(undecodable()), 20)  # read by another thread
        assert "truncated" in " ".join(decoders())


def _is_advice(code: str, words: str, file: Refused) -> None:
    assert code == file.code
    assert file.words in words
    assert any(advice in words for advice in ADVICE), words
    assert "truncated" not in words


def _sent(client: httpx.Client) -> Iterator[tuple[str, str]]:
    """What was refused, and the words."""
    for photo in corpus():
        files = {"file": ("photo", photo.data, photo.content_type)}
        answer = client.post("/api/upload", files=files, params={"name": photo.name})
        if answer.status_code != 201:
            yield photo.name, answer.json()["error"]


def _unlabelled(client: httpx.Client) -> Iterator[tuple[str, Any]]:
    seen, cursor = set(), None
    while True:
        query = {"limit": 100, **({"cursor": cursor} if cursor else {})}
        page = client.get(UPLOADS, params=query).json()
        for item in page["items"]:
            seen.add(item["name"])
            if not item.get("classificationLabel"):
                yield item["name"], item["classificationStatus"]
        if (cursor := page["nextCursor"]) is None:
            break
    yield from ((photo.name, "not there yet") for photo in corpus() if photo.name not in seen)


@pytest.mark.parametrize("photo", corpus(), ids=str)
def test_each_is_scanned_and_drawn_anew(photo: Photo) -> None:
    set_up()
    seen = Inspection.load(inspect(photo.data, BOUNDS).facts, len(photo.data))
    assert (seen.fault, seen.content_type) == (None, photo.content_type)
    assert seen.decoded == seen.frames
    assert seen.tail is None or seen.tail.kind == "harmless"
    answer = render(photo.data, {"max_side": None, "square": 16})
    made = Rendition.load(answer.facts, answer.data, square=16)
    assert {made.width, made.height} == {seen.width, seen.height}
    assert made.content_type == (
        "image/jpeg" if photo.content_type == "image/jpeg" else "image/webp"
    )
    for secret in (b"Fairphone", b"Darkroom", b"GDepth", b"ICC_PROFILE", b"ftypmp42"):
        assert secret not in made.data
