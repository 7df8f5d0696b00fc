"""Pictures that look different on a dark page than on a white one: both are judged, and what is
published looks the same everywhere."""

from collections.abc import Callable

import pytest
from PIL import Image

from safelight.accounts.access import Role
from safelight.sandbox.protocol import Rendition
from safelight.submissions.findings import Label, Opinion
from safelight.submissions.lifecycle import Submission
from submissions.desk import ORG, Desk, rules_of
from submissions.pictures import encoded, opened, photo

BLOCKLIST = f"/api/organizations/{ORG}/blocklist"


def ghost(name: str = "daisy") -> Image.Image:
    """White on white; on black, the photograph."""
    alpha = opened(photo(name)).convert("L")
    white = Image.new("L", alpha.size, 255)
    return Image.merge("RGBA", (white, white, white, alpha))


def still(kind: str) -> bytes:
    return encoded(ghost(), kind, **({"lossless": True} if kind == "WEBP" else {}))


def moving(kind: str) -> bytes:
    """The first frame is the one that is published."""
    frames = [ghost(), Image.new("RGBA", ghost().size, "white")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)


def gray_with_alpha(kind: str) -> bytes:
    return encoded(ghost().convert("LA"), kind)


GHOSTS: list[tuple[str, Callable[[str], bytes]]] = [
    ("PNG", still), ("WEBP", still), ("AVIF", still), ("PNG", gray_with_alpha), ("WEBP", moving),
    ("PNG", moving), ("AVIF", moving),
]  # fmt: skip


async def block_the_daisy(desk: Desk) -> None:
    first = await desk.submit(photo("daisy"), "first.jpg")
    await desk.work()
    async with await desk.as_role(Role.ADMIN) as admin:
        answer = await admin.post(BLOCKLIST, json={"submission": first})
        assert answer.status_code == 201, answer.text
    await desk.work("submissions.take_down")


@pytest.mark.parametrize(("kind", "made"), GHOSTS)
async def test_a_blocked_photograph_does_not_hide_in_transparency(
    desk: Desk, kind: str, made: Callable[[str], bytes]
) -> None:
    await block_the_daisy(desk)
    submission = await desk.submit(made(kind), "ghost.bin", f"image/{kind.lower()}")
    await desk.work()
    body = await desk.see(submission)
    assert (body["state"], rules_of(body)) == ("REJECTED", {"blocklist": "block"})


async def test_a_blocked_ghost_is_known_again(desk: Desk) -> None:
    """Whichever way round: an entry has the looks of what it was made from."""
    first = await desk.submit(still("PNG"), "ghost.png", "image/png")
    await desk.work()
    async with await desk.as_role(Role.ADMIN) as admin:
        entry = (await admin.post(BLOCKLIST, json={"submission": first})).json()
    assert len(entry["fingerprints"]) == 1  # on white there is nothing to see
    again = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.work()
    assert rules_of(await desk.see(again))["blocklist"] == "block"


async def test_what_is_published_looks_the_same_everywhere(desk: Desk) -> None:
    half = Image.new("RGBA", (40, 40), (200, 30, 30, 255))
    half.paste((0, 0, 0, 0), (0, 0, 40, 20))
    submission = await desk.submit(encoded(half, "PNG"), "glass.png", "image/png")
    await desk.work()
    shown = opened((await desk.public(submission)).content)
    assert (shown.format, shown.mode) == ("WEBP", "RGB")
    top, bottom = shown.getpixel((20, 5)), shown.getpixel((20, 35))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert (min(top) > 245, bottom[0] > 180, bottom[1] < 60) == (True, True, True)


def is_dark(view: Rendition) -> bool:
    return opened(view.data).convert("L").resize((1, 1)).tobytes()[0] < 200


class Seer:
    """Models that object to what is dark, and to nothing else."""

    async def safety(self, view: Rendition) -> float:
        assert len(view.square) == 256 * 256 * 3
        return 0.95 if is_dark(view) and self.minds == "safety" else 0.01

    async def label(self, _: Submission, view: Rendition) -> Label:
        bad = is_dark(view) and self.minds == "labels"
        return Label("REVOLVER" if bad else "TABBY", 0.9, "seer")

    async def opinion(self, _: Submission, view: Rendition) -> Opinion | None:
        return Opinion("block" if is_dark(view) and self.minds == "vision" else "pass")

    def __init__(self, minds: str) -> None:
        self.minds = minds


@pytest.mark.parametrize("rule", ["safety", "labels", "vision", "nothing"])
async def test_models_see_it_on_black_too(desk: Desk, rule: str) -> None:
    desk.tools = Seer(rule)  # type: ignore[assignment]  # another set of models
    desk.open()
    async with await desk.as_role(Role.ADMIN) as admin:
        path = f"/api/organizations/{ORG}/submission-policy"
        await admin.put(path, json={"blockedLabels": ["revolver"]})
    submission = await desk.submit(still("PNG"), "ghost.png", "image/png")
    await desk.work()
    body = await desk.see(submission)
    found = {} if rule == "nothing" else {rule: "block"}
    state = "PUBLISHED" if rule == "nothing" else "REJECTED"
    assert (body["state"], rules_of(body)) == (state, found)
