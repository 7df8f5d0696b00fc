"""From a submission to a picture that everybody can see."""

import hashlib
import re
from typing import Any

import pytest
from PIL import ExifTags

from safelight.accounts.access import Role
from safelight.infra import failpoints
from safelight.infra.files import joined
from safelight.submissions.submit import SubmissionRequest, Submit
from submissions.desk import ORG, Desk, rules_of
from submissions.pictures import animation, as_kind, holiday_photo, opened, photo, plain


async def test_a_clean_photograph_is_published(desk: Desk) -> None:
    submission = await desk.submit(photo("coffee"), "coffee.jpg")
    assert (await desk.public(submission)).status_code == 404
    await desk.work()
    body = await desk.see(submission)
    assert body["state"] == "PUBLISHED"
    assert body["source"] == {"upload": "coffee.jpg"}
    assert (body["findings"], "rejection" in body, "staleness" in body) == ([], False, False)
    response = await desk.public(submission)
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/jpeg"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "public, max-age=300"
    assert response.headers["etag"] == f'"{hashlib.sha256(response.content).hexdigest()}"'
    assert opened(response.content).size == opened(photo("coffee")).size


async def test_a_private_photograph_loses_its_place_and_stands_upright(desk: Desk) -> None:
    original = holiday_photo(orientation=6)
    submission = await desk.submit(original)
    await desk.work()
    body = await desk.see(submission)
    assert (body["state"], rules_of(body)) == ("PUBLISHED", {"privacy": "info"})
    assert "Location removed" in body["findings"][0]["message"]
    assert body["findings"][1]["evidence"] == {"camera": "Nokia 3310"}
    picture = (await desk.public(submission)).content
    shown = opened(picture)
    assert shown.size == opened(original).size[::-1]
    assert dict(shown.getexif()) == {}
    assert dict(shown.getexif().get_ifd(ExifTags.IFD.GPSInfo)) == {}
    for secret in (b"Nokia", b"3310", b"Exif", b"home address", b"ICC_PROFILE", b"http"):
        assert secret not in picture


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "AVIF"])
async def test_other_formats_are_published_as_webp(desk: Desk, kind: str) -> None:
    submission = await desk.submit(as_kind(kind), f"cat.{kind.lower()}", f"image/{kind.lower()}")
    await desk.work()
    response = await desk.public(submission)
    assert response.headers["content-type"] == "image/webp"
    shown = opened(response.content)
    assert (shown.format, shown.size) == ("WEBP", opened(photo()).size)


async def test_of_an_animation_its_first_frame_is_published(desk: Desk) -> None:
    submission = await desk.submit(animation(4), "dance.gif", "image/gif")
    await desk.work()
    shown = opened((await desk.public(submission)).content)
    assert getattr(shown, "n_frames", 1) == 1
    red, green, blue = shown.convert("RGB").getpixel((30, 20))  # type: ignore[misc]  # three bands
    assert red > 200
    assert max(green, blue) < 60


async def test_the_picture_is_served_as_the_web_expects(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.work()
    whole = await desk.public(submission)
    head = await desk.public(submission, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert head.headers["etag"] == whole.headers["etag"]
    again = await desk.public(submission, **{"if-none-match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    part = await desk.public(submission, range="bytes=10-19")
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert (await desk.public(submission, "POST")).status_code == 405
    assert "sandbox" in whole.headers["content-security-policy"]
    assert whole.headers["cross-origin-resource-policy"] == "cross-origin"


async def test_every_move_is_told(desk: Desk) -> None:
    submission = await desk.submit()
    await desk.work()
    told = await desk.story(f"submission:{submission}")
    assert [(kind, data["from"], data["to"]) for kind, data in told] == [
        ("submission_state_changed", None, "RECEIVED"),
        ("submission_state_changed", "RECEIVED", "TIER1_SCANNING"),
        ("submission_state_changed", "TIER1_SCANNING", "TIER2_SCANNING"),
        ("submission_state_changed", "TIER2_SCANNING", "PUBLISHED"),
    ]
    async with await desk.as_role(Role.VIEWER) as client:
        page = (await client.get(f"/api/v1/submissions/{submission}/history")).json()
    assert [item["to"] for item in page["items"]][-1] == "PUBLISHED"
    also = await desk.db.fetchval("SELECT count(*) FROM activity WHERE also = 'upload:cat.jpg'")
    assert also == 4


async def test_what_is_scanned_is_what_is_published(desk: Desk) -> None:
    """The upload is replaced after tier 2 has seen the old one."""
    submission = await desk.submit(photo("daisy"), "flower.jpg")
    failpoints.arm("submissions.store_rendition", "raise@1")
    await desk.work()
    assert (await desk.see(submission))["state"] == "TIER2_SCANNING"
    await desk.put("flower.jpg", plain("red", (500, 400), "JPEG"))
    desk.clock.advance(minutes=6)
    assert await desk.recovery.run() == 1
    await desk.work()
    published = await desk.public(submission)
    assert opened(published.content).size == opened(photo("daisy")).size
    assert published.content == desk.tools.seen[-1].data == desk.tools.seen[0].data


async def test_what_was_submitted_outlives_its_upload_until_it_is_over(desk: Desk) -> None:
    submission = await desk.submit(photo("daisy"), "flower.jpg")
    await desk.put("flower.jpg", plain("red", (500, 400), "JPEG"))
    key = f"submissions/{submission}"
    assert await joined((await desk.store.get(key)).chunks) == photo("daisy")
    blob = hashlib.sha256(photo("daisy")).hexdigest()
    held = await desk.db.fetch("SELECT key FROM objects WHERE blob = $1", blob)
    assert [row["key"] for row in held] == [key]
    await desk.work()
    assert await desk.due("submissions.release") == 1
    assert await desk.db.fetch("SELECT key FROM objects WHERE blob = $1", blob) == []
    assert (await desk.public(submission)).status_code == 200


async def test_the_list_is_paged_and_filtered(desk: Desk) -> None:
    made = []
    for number in range(5):
        desk.clock.advance(seconds=1)
        made.append(await desk.submit(plain("red"), f"{number}.png", "image/png"))
        if number == 1:
            await desk.work()
    async with await desk.as_role(Role.VIEWER) as client:
        first = (await client.get("/api/v1/submissions?limit=2")).json()
        rest = (
            await client.get(f"/api/v1/submissions?limit=9&cursor={first['nextCursor']}")
        ).json()
        shown = [item["id"] for item in first["items"] + rest["items"]]
        assert (shown, rest["nextCursor"]) == (made[::-1], None)
        waiting = (await client.get("/api/v1/submissions?state=RECEIVED")).json()["items"]
        assert [item["id"] for item in waiting] == made[:1:-1]
        assert (await client.get("/api/v1/submissions?state=LOST")).status_code == 422
        assert (await client.get("/api/v1/submissions?limit=0")).status_code == 422
        assert (await client.get("/api/v1/submissions?cursor=x")).status_code == 422
    async with await desk.as_role(Role.ADMIN, "globex") as client:
        assert (await client.get("/api/v1/submissions")).json()["items"] == []


CANNOT: list[tuple[Any, int]] = [
    ({"source": {"upload": "nothing.jpg"}}, 404),
    ({"source": {"upload": "../../etc/passwd"}}, 404),
    ({"source": {"upload": "a/b"}}, 404),
    ({"source": {"upload": "cat.jpg\0"}}, 404),
    ({"source": {"artifact": "0190b0a0-0000-7000-8000-000000000000"}}, 404),
    ({"source": {}}, 422),
    ({"source": {"upload": "a", "artifact": "b"}}, 422),
    ({"source": {"url": "http://example.org"}}, 422),
    ({"source": {"upload": ""}}, 422),
    ({"source": {"upload": "clip.mp4"}}, 422),
    ({"source": {"upload": "cat.jpg"}, "title": ""}, 422),
    ({"source": {"upload": "cat.jpg"}, "title": "x" * 201}, 422),
    ({"source": {"upload": "cat.jpg"}, "title": "a\0b"}, 422),
    ({}, 422),
    ([], 422),
]


async def test_what_cannot_be_submitted(desk: Desk) -> None:
    await desk.put("clip.mp4", b"....ftypmp42", "video/mp4")
    await desk.put("cat.jpg", photo())
    async with await desk.as_role() as client:
        for body, status in CANNOT:
            response = await client.post("/api/v1/submissions", json=body)
            code = {404: "NOT_FOUND", 422: "INVALID_REQUEST"}[status]
            assert (response.status_code, response.json()["code"]) == (status, code), body
    assert await desk.db.fetchval("SELECT count(*) FROM submissions") == 0
    assert await desk.db.fetchval("SELECT count(*) FROM objects WHERE key ~ '^submissions/'") == 0


async def test_an_upload_that_is_not_stored_yet_is_not_ready(desk: Desk) -> None:
    await desk.db.execute(
        "INSERT INTO images (id, organization, name, idempotency_key, status, temp_path, checksum, "
        "mime_type, width, height, size_bytes, created_at, updated_at) VALUES "
        "('img_1', $1, 'soon.jpg', gen_random_uuid(), 'INGESTED', '', '', '', 1, 1, 1, 1, 1)",
        ORG,
    )
    async with await desk.as_role() as client:
        wanted = {"source": {"upload": "soon.jpg"}}
        response = await client.post("/api/v1/submissions", json=wanted)
        assert (response.status_code, response.json()["code"]) == (409, "NOT_READY")
        await desk.db.execute("INSERT INTO delete_intents VALUES ('img_1', $1, 'soon.jpg', 1)", ORG)
        assert (await client.post("/api/v1/submissions", json=wanted)).status_code == 404


async def test_ids_and_titles(desk: Desk) -> None:
    await desk.put("cat.jpg", photo())
    async with await desk.as_role() as client:
        wanted = {"source": {"upload": "cat.jpg"}, "title": " My cat "}
        made = (await client.post("/api/v1/submissions", json=wanted)).json()
    assert re.fullmatch(r"sub_[0-9a-z]{20}", made["id"])
    body = await desk.see(made["id"])
    assert body["title"] == "My cat"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["createdAt"])
    assert await desk.value(f"inflight:{made['id']}") is None


async def test_nothing_is_left_of_a_submission_that_could_not_be_recorded(desk: Desk) -> None:
    await desk.put("cat.jpg", photo())
    wanted = SubmissionRequest(ORG, "upload", "cat.jpg", None, {"type": "user", "name": "ada"})
    for point in ("objects.share", "submissions.add", "queue.enqueue", "unit.close"):
        failpoints.arm(point, "raise")
        with pytest.raises(failpoints.FailpointError):
            await desk.registry.get(Submit).submit(wanted)
        failpoints.disarm(point)
        assert await desk.db.fetchval("SELECT count(*) FROM submissions") == 0
        assert await desk.jobs() == []
        keys = "SELECT count(*) FROM objects WHERE key ~ '^submissions/'"
        assert await desk.db.fetchval(keys) == 0
