"""Submissions as a browser without scripts meets them."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness import picture
from inprocess import Application, application
from safelight.accounts.access import Role
from safelight.accounts.members import Members
from safelight.approvals.lifecycle import ApprovalStatus
from safelight.infra.history import Activity
from safelight.infra.injected import Clock
from safelight.objects.store import Facts, ObjectStore
from safelight.submissions.findings import Severity
from safelight.submissions.jobs import PROCESS
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.web.charts import BarPart, Hour, draw
from safelight.web.publishing import Passage, duration, steps
from submissions.pictures import photo
from web.reading import as_role, browser, read, shows, words

LIST = "/app/default/submissions"
ODD = "ä \"<b>&'.jpg"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Without a worker: nothing moves by itself."""
    async with application(database_url, tmp_path) as app:
        yield app


@pytest.fixture
async def working(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, worker=True) as app:
        yield app


async def store(app: Application, name: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield picture()

    facts = Facts("image/jpeg", {"organizationId": "default", "name": name})
    await app.registry.get(ObjectStore).put(f"default/{name}", chunks(), facts)


async def submitted(app: Application, name: str = "boat.jpg", title: str = "") -> str:
    """Its page's address."""
    await store(app, name)
    async with browser(app) as client:
        answer = await client.post(LIST, data={"source": f"upload:{name}", "title": title})
    assert answer.status_code == 303, words(answer.text)
    return answer.headers["location"]


async def change(app: Application, address: str, **columns: Any) -> None:
    settings = ", ".join(f"{name} = ${number}" for number, name in enumerate(columns, 2))
    await app.db.execute(
        f"UPDATE submissions SET {settings} WHERE id = $1",
        address.rpartition("/")[2],
        *columns.values(),
    )


async def test_the_empty_list_says_what_to_do(app: Application) -> None:
    async with browser(app) as client, await as_role(app, Role.VIEWER) as viewer:
        assert "Choose an image" in words(await read(client, LIST))
        page = await read(viewer, LIST)
        assert "as soon as a member of default submits" in words(page)
        assert "/submissions/new" not in page
        await read(viewer, f"{LIST}/new", 403)
        assert "There is nothing to submit yet" in words(await read(client, f"{LIST}/new"))


async def test_a_picture_is_chosen_and_submitted(working: Application) -> None:
    async with browser(working) as client:
        for name in (ODD, "sea view.jpg"):
            files = {"file": (name, picture(colour="teal"))}
            assert (await client.post("/api/upload", files=files, params={"name": name})).is_success
        picker = await shows(client, f"{LIST}/new", "thumbnail?v=")
        assert f'value="upload:{ODD}"' in html.unescape(picker)
        assert "<b>" not in picker
        found = await read(client, f"{LIST}/new?q=sea")
        assert ("upload:sea view.jpg" in found, "b&gt;" in found) == (True, False)
        assert "No picture has these words" in words(await read(client, f"{LIST}/new?q=nothing"))
        assert "No picture" in words(await read(client, f"{LIST}/new?q=%C2%B7%C2%B7"))
        chosen = await client.get(LIST, params={"upload": ODD})
        assert chosen.headers["location"].startswith(f"{LIST}/new?upload=")
        assert "required checked>" in await read(client, chosen.headers["location"])
        answer = await client.post(LIST, data={"source": f"upload:{ODD}", "title": " A boat "})
        page = words(await read(client, answer.headers["location"]))
        assert page.startswith("A boat All submissions")
        assert ODD in page
        assert "A boat Submitted by" in words(await read(client, LIST))


async def test_what_was_generated_can_be_chosen_too(working: Application) -> None:
    small = {"prompt": "hills <by> night", "width": 64, "height": 64, "delaySeconds": 0}
    async with browser(working) as client:
        wanted = {"model": "studio/horizon", "input": small}
        assert (await client.post("/generations", json=wanted)).status_code == 202
        picker = await shows(client, f"{LIST}/new?q=HILL", "hills &lt;by&gt; night")
        source = re.search(r'value="(artifact:[^"]+)"', picker)
        assert source is not None
        assert "artifact:" not in await read(client, f"{LIST}/new?q=sea")
        linked = await read(client, f"{LIST}/new?artifact={source[1].partition(':')[2]}")
        assert "required checked>" in linked
        answer = await client.post(LIST, data={"source": source[1]})
        page = await read(client, answer.headers["location"])
        await working.registry.get(Members).make_organization("globex")
        async with await as_role(working, Role.ADMIN, "globex") as stranger:
            theirs = await read(stranger, f"/app/globex/submissions/new?artifact={source[1][9:]}")
            assert "There is nothing to submit yet" in words(theirs)
        assert f"/artifacts/{source[1].partition(':')[2]}/content" in page


@pytest.mark.parametrize(
    ("form", "status", "reason"),
    [
        ({}, 422, "Choose a picture first."),
        ({"source": "upload:none.jpg"}, 404, "There is no image called none.jpg."),
        ({"source": "upload:a\0b"}, 422, "letters that can be read"),
        ({"source": "upload:../../etc"}, 404, "no such"),
        ({"source": "nonsense:x"}, 422, "choose one of"),
        ({"upload": "a.jpg", "title": "x" * 201}, 422, "at most 200"),
    ],
)
async def test_a_refusal_keeps_what_was_chosen(
    app: Application, form: dict[str, str], status: int, reason: str
) -> None:
    async with browser(app) as client:
        answer = await client.post(LIST, data=form)
    assert answer.status_code == status
    assert reason.lower() in words(answer.text).lower()
    if form.get("source") == "upload:none.jpg":
        assert 'value="upload:none.jpg" required checked' in answer.text


async def test_the_list_filters_and_pages(app: Application) -> None:
    first = await submitted(app, "first.jpg")
    await submitted(app, "second.jpg")
    await change(app, first, state="PUBLISHED")
    async with browser(app) as client:
        published = await read(client, f"{LIST}?state=PUBLISHED")
        assert ("first.jpg" in published, "second.jpg" in words(published)) == (True, False)
        link = f"{app.url}/public/{first.rpartition('/')[2]}"
        assert f'<code>{link}</code></a> <copy-button data-label="Copy the public' in published
        assert "All 2 Under way 1 Waiting for a person 0 Published 1" in words(published)
        under_way = words(await read(client, f"{LIST}?state=under-way"))
        assert ("second.jpg" in under_way, "first.jpg" in under_way) == (True, False)
        assert "None in this state" in words(await read(client, f"{LIST}?state=WITHDRAWN"))
        assert "second.jpg" in words(await read(client, f"{LIST}?state=RECEIVED"))
        await read(client, f"{LIST}?state=NONSENSE", 422)
        await read(client, f"{LIST}?cursor=nonsense", 422)
        await app.db.execute(
            "INSERT INTO submissions SELECT (jsonb_populate_record(s, jsonb_build_object("
            "'id', 'sub_' || n, 'created_at', n))).* FROM submissions s, generate_series(1, 60) n "
            "WHERE source_id = 'second.jpg'"
        )
        page = await read(client, LIST)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        assert older is not None
        rest = await read(client, html.unescape(older[1]))
    assert (page.count('class="publication"'), rest.count('class="publication"')) == (50, 12)
    assert "data-hears" not in rest, "older ones stay as they are"


async def test_the_step_that_rejected_is_red_and_says_why(app: Application) -> None:
    address = await submitted(app)
    findings = [
        {"rule": "privacy", "severity": "info", "message": "Location removed.", "evidence": {}},
        {"rule": "bomb", "severity": "block", "message": "<Too> large.", "evidence": {}},
        {"rule": "safety", "severity": "review", "message": "Hm.", "evidence": {"score": 0.5}},
    ]
    rejection = {"code": "MALFORMED", "message": "<Too> large."}
    await change(app, address, state="REJECTED", findings=findings, rejection=rejection)
    async with browser(app) as client:
        page = await read(client, address)
        listed = words(await read(client, LIST))
    said = words(page)
    assert "File check failed" in said
    assert "Stops publication <Too> large. Good to know Location removed. Content check" in said
    assert "Content check Not reached. A person has to look Hm. Risk 50 % 50 %" in said
    assert "Published It is not published." in said
    assert "data-every" not in page, "nothing moves any more"
    assert "/withdraw" not in page
    assert "<Too> large. Rejected" in listed


async def test_a_stale_one_says_since_when_and_what_happens_next(app: Application) -> None:
    address = await submitted(app)
    now = app.registry.get(Clock).now_ms()
    await change(app, address, updated_at=now - 200_000)
    async with browser(app) as client:
        page = await read(client, address)
        assert "notice--stale" in page
        assert "waiting for its first check for 3 minutes" in words(page)
        assert "Work on it goes on" in words(page)
        await app.db.execute("DELETE FROM jobs WHERE kind = $1", PROCESS.name)
        assert "The next automatic attempt is due" in words(await read(client, address))
        assert "Taking longer" in words(await read(client, LIST))
        await change(app, address, state="TIER1_SCANNING", updated_at=now)
        assert "notice--stale" not in await read(client, address)


async def test_withdrawing(app: Application) -> None:
    address = await submitted(app)
    async with browser(app) as client, await as_role(app, Role.VIEWER) as viewer:
        assert "/withdraw" not in await read(viewer, address)
        assert (await viewer.post(f"{address}/withdraw")).status_code == 403
        for _ in range(2):
            answer = await client.post(f"{address}/withdraw")
            assert (answer.status_code, answer.headers["location"]) == (303, address)
        page = words(await read(client, address))
        assert "File check Not reached." in page
        assert re.search("Ended .* Withdrawn by bootstrap", page)
        assert "Submit it again" not in page, "its image is not in the library"


async def test_what_was_published_has_a_link_until_it_is_withdrawn(working: Application) -> None:
    async with browser(working) as client:
        files = {"file": ("cat.jpg", photo())}
        assert (await client.post("/api/upload", files=files)).is_success
        await shows(client, f"{LIST}/new", "thumbnail?v=")
        form = {"source": "upload:cat.jpg", "title": "The cat"}
        address = (await client.post(LIST, data=form)).headers["location"]
        page = await shows(client, address, 'data-state="PUBLISHED"')
        link = f"{working.url}/public/{address.rpartition('/')[2]}"
        assert f"<code>{link}</code>" in page
        assert (await client.get(link)).headers["content-type"] == "image/jpeg"
        said = words(page)
        assert re.search(r"JPEG · \d+ KB, without camera data", said)
        assert re.search("Submitted .* by bootstrap File check .* Content check .* Published", said)
        assert said.count("less than a second") + len(re.findall(r" \d+ s ", said)) >= 2
        assert "/app/default/images/" in page
        assert "Show less" in words(await read(client, f"{address}?details=true"))
        await client.post(f"{address}/withdraw")
        gone = await read(client, address)
        assert (await client.get(link)).status_code == 404
        assert link not in gone
        assert "Withdrawn" in words(gone)
        again = await client.post(LIST, data=form_in(gone, LIST))
        assert again.headers["location"] not in {address, None}


def form_in(page: str, action: str) -> dict[str, str]:
    body = page.split(f'action="{action}"', maxsplit=1)[1].split("</form>", maxsplit=1)[0]
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', body)
    return {name: html.unescape(value) for name, value in found}


async def test_somebody_elses_is_not_found(app: Application) -> None:
    address = await submitted(app)
    await app.registry.get(Members).make_organization("globex")
    async with await as_role(app, Role.ADMIN, "globex") as stranger:
        await read(stranger, address, 404)
        await read(stranger, "/submit/sub_nothing", 404)
        assert (await stranger.post(f"{address}/withdraw")).status_code == 404


async def dead(app: Application) -> int:
    error = {"code": "E", "message": "It <broke>."}
    job: int = await app.db.fetchval(
        "UPDATE jobs SET status = 'dead', error = $2, died_at = now() WHERE kind = $1 RETURNING id",
        PROCESS.name,
        error,
    )
    return job


@pytest.mark.parametrize("over", ["/api/v1/admin", "/api/organizations/default"])
async def test_all_of_a_kind_over_the_api(app: Application, over: str) -> None:
    await submitted(app)
    await dead(app)
    async with app.client() as client:
        other = await client.post(f"{over}/dead-letters/redrive", params={"kind": "no.such"})
        assert (other.status_code, other.json()) == (202, {"redriven": 0, "remaining": 0})
        answer = await client.post(f"{over}/dead-letters/redrive")
        assert answer.json() == {"redriven": 1, "remaining": 0}
        await dead(app)
        answer = await client.post(f"{over}/dead-letters/discard")
        assert (answer.status_code, answer.json()) == (200, {"discarded": 1, "remaining": 0})


def test_every_state_and_severity_has_words() -> None:
    for each in (*SubmissionState, *ApprovalStatus, *Severity):
        assert each.word
        assert each.icon


WAY = (
    SubmissionState.RECEIVED, SubmissionState.TIER1_SCANNING, SubmissionState.TIER2_SCANNING,
    SubmissionState.AWAITING_APPROVAL, SubmissionState.PUBLISHED, SubmissionState.WITHDRAWN,
)  # fmt: skip
REJECTED = SubmissionState.REJECTED
USER = {"type": "user", "name": "ada"}


def passage(*reached: SubmissionState, **more: Any) -> Passage:
    """Each state entered a second after the one before it."""
    data = [
        {"from": before, "to": to, "actor": more.get("actor", {"type": "system", "name": "x"})}
        for before, to in zip((None, *reached), reached, strict=False)
    ]
    lines = [
        Activity(at, "submission_state_changed", 1000 * at, each) for at, each in enumerate(data)
    ]
    rejection = {"code": more.get("code", "POLICY"), "message": "Because."}
    submission = Submission(
        "s", "acme", None, USER, "upload", "cat.jpg", "m", 1, True, "sum", "image/jpeg", 1,
        reached[-1], 0, 0, rejection=rejection if reached[-1] is REJECTED else None,
    )  # fmt: skip
    return Passage.of(submission, lines[::-1])


@pytest.mark.parametrize(
    ("way", "more", "expected"),
    [
        (WAY[:1], {}, "now next next next"),
        (WAY[:3], {}, "done done now next"),
        (WAY[:4], {}, "done done done now next"),
        (WAY[:5], {}, "done done done done done"),
        ((*WAY[:3], WAY[4]), {}, "done done done done"),
        (WAY, {}, "done done done done done ended"),
        ((*WAY[:2], REJECTED), {}, "done failed skipped skipped"),
        ((*WAY[:3], REJECTED), {}, "done done failed skipped"),
        ((*WAY[:4], REJECTED), {"actor": USER, "code": "APPROVAL_REJECTED"},
         "done done done failed skipped"),
        ((*WAY[:4], REJECTED), {"actor": USER}, "done done done skipped ended"),
        ((*WAY[:1], REJECTED), {"code": "SOURCE_GONE"}, "done skipped skipped ended"),
        ((*WAY[:1], REJECTED), {"code": "STUCK_EXHAUSTED"}, "done failed skipped skipped"),
    ],
)  # fmt: skip
def test_steps(way: tuple[SubmissionState, ...], more: dict[str, Any], expected: str) -> None:
    shown = steps(passage(*way, **more))
    assert " ".join(step.status for step in shown) == expected
    if len(way) > 2:
        assert (shown[1].at, shown[1].took) == (1000, "1 s")
    if REJECTED in way:
        assert sum(step.words == "Because." for step in shown) == 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (7200, "2 h"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_bars_stay_inside_and_what_occurred_is_seen() -> None:
    hours = [Hour(0, (BarPart("a", 1000), BarPart("b", 0))), Hour(3_600_000, (BarPart("a", 1),))]
    chart = draw(hours, 50)
    high, low = (column.rects for column in chart.columns)
    assert [(rect.y, rect.height) for rect in high] == [(0, 50)]
    assert low[0].height > 1
    assert [column.words for column in chart.columns] == ["00:00 UTC: 1000 a", "01:00 UTC: 1 a"]
    assert draw([], 50).columns == ()
