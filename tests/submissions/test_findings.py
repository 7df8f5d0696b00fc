"""What is wrong with a file, in words for the one who submitted it."""

import pytest

from headers.heif_files import HEIC, Part, heif, hevc, ispe, still
from safelight.accounts.access import Role
from safelight.headers.refusals import DAMAGED
from submissions.desk import ORG, Desk, rules_of
from submissions.pictures import (
    as_kind,
    bomb,
    flood_of_frames,
    holiday_photo,
    near_copy,
    photo,
    plain,
    truncated,
    with_archive,
)

MP4 = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 40


async def rejected(desk: Desk, data: bytes, name: str, content_type: str) -> dict[str, str]:
    """Submits and scans; the rejection, after making sure that nothing is shown."""
    submission = await desk.submit(data, name, content_type)
    await desk.work()
    body = await desk.see(submission)
    assert body["state"] == "REJECTED", body
    assert (await desk.public(submission)).status_code == 404
    assert desk.tools.seen == []
    rejection: dict[str, str] = body["rejection"]
    blocking = [f["message"] for f in body["findings"] if f["severity"] == "block"]
    assert rejection["message"] == blocking[0]
    return rejection


async def test_a_picture_with_an_archive_behind_it(desk: Desk) -> None:
    why = await rejected(desk, with_archive(photo()), "cat.jpg", "image/jpeg")
    assert why["code"] == "MALFORMED"
    assert "a ZIP archive behind the image" in why["message"]


async def test_a_decompression_bomb(desk: Desk) -> None:
    why = await rejected(desk, bomb(), "sky.png", "image/png")
    assert why["code"] == "MALFORMED"
    assert "unpacks to 75 MB (5000 × 5000 pixels)" in why["message"]


async def test_a_truncated_file(desk: Desk) -> None:
    why = await rejected(desk, truncated(photo()), "cat.jpg", "image/jpeg")
    assert why["code"] == "MALFORMED"
    assert why["message"] == DAMAGED


async def test_a_truncated_file_that_no_decoder_takes_for_an_image(desk: Desk) -> None:
    why = await rejected(desk, as_kind("PNG")[:40], "cat.png", "image/png")
    assert why["message"] == DAMAGED


async def test_a_file_that_is_only_not_supported(desk: Desk) -> None:
    shown = Part(b"iden", b"", (ispe(64, 64),), made_of=(2,))
    data = heif(shown, still(hevc(64, 64), (64, 64)), brands=HEIC)
    why = await rejected(desk, data, "cat.heic", "image/heic")
    assert why["code"] == "MALFORMED"
    assert "not supported" in why["message"]
    assert why["message"].endswith("Export it as JPEG and submit that.")


async def test_a_flood_of_frames(desk: Desk) -> None:
    why = await rejected(desk, flood_of_frames(10_000), "party.gif", "image/gif")
    assert why["code"] == "MALFORMED"
    assert "10000 frames" in why["message"]


async def test_a_file_in_disguise(desk: Desk) -> None:
    why = await rejected(desk, as_kind("PNG"), "cat.jpg", "image/jpeg")
    assert why["code"] == "MALFORMED"
    assert "stored as JPEG but really is a PNG" in why["message"]


async def test_no_image_at_all(desk: Desk) -> None:
    why = await rejected(desk, b"<html>hello</html>", "cat.jpg", "image/jpeg")
    assert why["code"] == "MALFORMED"
    assert "not a JPEG, PNG, WebP, GIF, AVIF or HEIC" in why["message"]


async def block(desk: Desk, **body: str) -> str:
    async with await desk.as_role(Role.ADMIN) as client:
        response = await client.post(f"/api/organizations/{ORG}/blocklist", json=body)
    assert response.status_code == 201, response.text
    entry: str = response.json()["id"]
    return entry


async def test_a_blocklisted_file_and_its_near_copies(desk: Desk) -> None:
    first = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.work()
    entry = await block(desk, submission=first, note="not ours")
    why = await rejected_again(desk, photo("daisy"), "again.jpg")
    assert why == ("POLICY", "This image is one that your organization does not publish.", entry)
    why = await rejected_again(desk, near_copy(photo("daisy")), "copy.jpg")
    assert why == (
        "POLICY",
        "This image looks like one that your organization does not publish.",
        entry,
    )
    other = await desk.submit(photo("coffee"), "coffee.jpg")
    await desk.work()
    assert (await desk.see(other))["state"] == "PUBLISHED"


async def rejected_again(desk: Desk, data: bytes, name: str) -> tuple[str, str, str]:
    submission = await desk.submit(data, name)
    await desk.work()
    body = await desk.see(submission)
    [finding] = [found for found in body["findings"] if found["rule"] == "blocklist"]
    return body["rejection"]["code"], finding["message"], finding["evidence"]["entry"]


async def test_the_same_picture_twice_asks_a_person(desk: Desk) -> None:
    first = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.work()
    second = await desk.submit(photo("daisy"), "other.jpg")
    await desk.work()
    body = await desk.see(second)
    assert body["state"] == "AWAITING_APPROVAL"
    [finding] = body["findings"]
    assert (finding["rule"], finding["severity"]) == ("duplicate", "review")
    assert finding["evidence"] == {"submission": first, "match": "exact"}


async def test_a_duplicate_counts_in_its_own_organization_only(desk: Desk) -> None:
    first = await desk.submit(photo("daisy"), "daisy.jpg")
    await desk.work()
    await desk.put("daisy.jpg", photo("daisy"), organization="globex")
    async with await desk.as_role(Role.MEMBER, "globex") as client:
        wanted = {"source": {"upload": "daisy.jpg"}}
        other = (await client.post("/api/v1/submissions", json=wanted)).json()["id"]
    await desk.work()
    assert (await desk.public(first)).status_code == 200
    assert (await desk.public(other)).status_code == 200


@pytest.mark.parametrize(
    ("tail", "severity", "state"),
    [
        (b"\0" * 500, "info", "PUBLISHED"),
        (MP4, "info", "PUBLISHED"),
        (b"some bytes nobody knows", "review", "AWAITING_APPROVAL"),
        (b"%PDF-1.7 the rest of it", "block", "REJECTED"),
        (b"\n<script>alert(1)</script>", "block", "REJECTED"),
        (b"\x7fELF\x02\x01\x01" + bytes(60), "block", "REJECTED"),
        (b"MZ" + bytes(100), "block", "REJECTED"),
    ],
)
async def test_data_behind_the_end(desk: Desk, tail: bytes, severity: str, state: str) -> None:
    submission = await desk.submit(photo() + tail)
    await desk.work()
    body = await desk.see(submission)
    assert (rules_of(body), body["state"]) == ({"trailing_data": severity}, state)
    if state == "PUBLISHED":
        assert tail[:50] not in (await desk.public(submission)).content


async def test_a_wrong_extension_is_only_mentioned(desk: Desk) -> None:
    submission = await desk.submit(photo(), "cat.png", "image/jpeg")
    await desk.work()
    body = await desk.see(submission)
    assert (body["state"], rules_of(body)) == ("PUBLISHED", {"real_type": "info"})


async def test_everything_that_is_wrong_is_told_at_once(desk: Desk) -> None:
    submission = await desk.submit(with_archive(holiday_photo()), "cat.png", "image/jpeg")
    await desk.work()
    body = await desk.see(submission)
    assert rules_of(body) == {"real_type": "info", "trailing_data": "block", "privacy": "info"}
    for finding in body["findings"]:
        assert set(finding) == {"rule", "severity", "message", "evidence"}
        assert finding["message"].endswith(".")


async def test_plain_pictures_are_not_all_the_same(desk: Desk) -> None:
    """Without contrast there is nothing to compare; only the bytes count."""
    for name, colour in (("red.png", "red"), ("blue.png", "blue")):
        submission = await desk.submit(plain(colour), name, "image/png")
        await desk.work()
        assert (await desk.see(submission))["state"] == "PUBLISHED"
