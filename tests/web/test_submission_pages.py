"""Submissions and approvals as a browser without scripts meets them."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import TOKEN, picture
from inprocess import Application, application
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.tokens import Tokens
from safelight.approvals.lifecycle import ApprovalStatus
from safelight.approvals.workflow import Approvals, Question
from safelight.infra.injected import Clock
from safelight.objects.store import Facts, ObjectStore
from safelight.submissions.findings import Severity
from safelight.submissions.jobs import PROCESS
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.charts import BarPart, Hour, draw
from safelight.web.publishing import duration, steps

LIST, WORKFLOW = "/app/default/submissions", "/app/default/workflow"
HTML = {"accept": "text/html,application/xhtml+xml"}
ODD = "ä \"<b>&'.jpg"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Without a worker: nothing moves by itself."""
    async with application(database_url, tmp_path) as app:
        yield app


def browser(app: Application, token: str = TOKEN) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}", **HTML}
    return httpx.AsyncClient(base_url=app.url, headers=headers, timeout=30)


async def as_role(app: Application, role: Role, organization: str = "default") -> httpx.AsyncClient:
    tokens = app.registry.get(Tokens)
    _, secret = await tokens.make(organization, Grant(role), name=role, maker=None)
    return browser(app, secret)


async def store(app: Application, name: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield picture()

    facts = Facts("image/jpeg", {"organizationId": "default", "name": name})
    await app.registry.get(ObjectStore).put(f"default/{name}", chunks(), facts)


async def submitted(app: Application, name: str = "boat.jpg", title: str = "") -> str:
    """Its page's address."""
    await store(app, name)
    async with browser(app) as client:
        answer = await client.post(LIST, data={"upload": name, "title": title})
    assert answer.status_code == 303, words(answer.text)
    return answer.headers["location"]


async def change(app: Application, address: str, **columns: Any) -> None:
    settings = ", ".join(f"{name} = ${number}" for number, name in enumerate(columns, 2))
    await app.db.execute(
        f"UPDATE submissions SET {settings} WHERE id = $1",
        address.rpartition("/")[2],
        *columns.values(),
    )


async def asked(app: Application, title: str = "May this go out?") -> str:
    question = Question("default", title, "It shows\na face.", {"type": "user", "name": "ada"})
    return (await app.registry.get(Approvals).request_approval(question)).id


def words(page: str) -> str:
    main = page.partition("<main")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main.partition(">")[2])).split())


async def read(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status_code == status, words(answer.text)
    assert "style=" not in answer.text, "the content security policy would drop it"
    return answer.text


async def test_the_empty_list_says_what_to_do(app: Application) -> None:
    async with browser(app) as client, await as_role(app, Role.VIEWER) as viewer:
        assert "submit it above" in words(await read(client, LIST))
        page = await read(viewer, LIST)
        assert "as soon as a member of default submits" in words(page)
        assert '<form class="card submit-form"' not in page


async def test_a_form_submits_and_leads_to_the_page_of_it(app: Application) -> None:
    address = await submitted(app, ODD, " A boat ")
    async with browser(app) as client:
        page = words(await read(client, address))
        assert page.startswith("A boat Submissions Received")
        assert f"upload {ODD}" in page
        listed = words(await read(client, LIST))
        assert f"A boat upload {ODD}" in listed


@pytest.mark.parametrize(
    ("form", "status", "reason"),
    [
        ({}, 422, "Say which image"),
        ({"upload": "none.jpg"}, 404, "There is no image called none.jpg."),
        ({"upload": "a\0b"}, 422, "letters that can be read"),
        ({"upload": "../../etc"}, 404, "no such"),
        ({"upload": "a.jpg", "title": "x" * 201}, 422, "at most 200"),
    ],
)
async def test_a_refusal_keeps_what_was_typed(
    app: Application, form: dict[str, str], status: int, reason: str
) -> None:
    async with browser(app) as client:
        answer = await client.post(LIST, data=form)
    assert answer.status_code == status
    assert reason.lower() in words(answer.text).lower()
    if "\0" not in form.get("upload", ""):
        assert f'value="{html.escape(form.get("upload", ""))}"' in answer.text


async def test_the_list_filters_and_pages(app: Application) -> None:
    first = await submitted(app, "first.jpg")
    await submitted(app, "second.jpg")
    await change(app, first, state="PUBLISHED")
    async with browser(app) as client:
        published = await read(client, f"{LIST}?state=PUBLISHED")
        assert ("first.jpg" in published, "second.jpg" in words(published)) == (True, False)
        assert f'src="/public/{first.rpartition("/")[2]}"' in published
        assert "None in this state" in words(await read(client, f"{LIST}?state=WITHDRAWN"))
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
    assert (page.count('class="entry"'), rest.count('class="entry"')) == (50, 12)
    assert "data-hears" not in rest, "older ones stay as they are"


async def test_findings_and_the_reason_in_words(app: Application) -> None:
    address = await submitted(app)
    findings = [
        {"rule": "location", "severity": "info", "message": "Location removed.", "evidence": {}},
        {"rule": "bomb", "severity": "block", "message": "<Too> large.", "evidence": {}},
    ]
    rejection = {"code": "MALFORMED", "message": "<Too> large."}
    await change(app, address, state="REJECTED", findings=findings, rejection=rejection)
    async with browser(app) as client:
        page = await read(client, address)
    said = words(page)
    assert "Why it was rejected <Too> large. MALFORMED" in said
    assert "Stops publication <Too> large. bomb Good to know Location removed." in said
    assert "File check not reached" in said
    assert "data-every" not in page, "nothing moves any more"
    assert "/withdraw" not in page


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
        assert "Withdrawn by" in words(await read(client, address))


async def test_somebody_elses_is_not_found(app: Application) -> None:
    address = await submitted(app)
    await app.registry.get(Members).make_organization("globex")
    async with await as_role(app, Role.ADMIN, "globex") as stranger:
        await read(stranger, address, 404)
        await read(stranger, "/submit/sub_nothing", 404)
        assert (await stranger.post(f"{address}/withdraw")).status_code == 404


async def test_deciding(app: Application) -> None:
    yes, no, open_one = await asked(app, "One?"), await asked(app, "Two?"), await asked(app, "<3>")
    async with browser(app) as client:
        await client.post(f"{WORKFLOW}/{yes}/approve")
        answer = await client.post(f"{WORKFLOW}/{no}/reject", data={"reason": " Too dark. "})
        assert (answer.status_code, answer.headers["location"]) == (303, WORKFLOW)
        page = await read(client, WORKFLOW)
        waiting, _, decided = words(page).partition(" Decided ")
        assert "<3>" in waiting
        assert "One?" not in waiting
        assert ": Too dark. Rejected One?" in decided
        assert f"{WORKFLOW}/{open_one}/approve" in page
        again = await client.post(f"{WORKFLOW}/{no}/approve")
        assert (again.status_code, "is rejected already" in words(again.text)) == (409, True)
        silent = await client.post(f"{WORKFLOW}/{open_one}/reject", data={"reason": "  "})
        assert (silent.status_code, "Say why" in words(silent.text)) == (422, True)
        assert (await client.post(f"{WORKFLOW}/apr_none/approve")).status_code == 404


async def test_only_approvers_are_offered_a_decision(app: Application) -> None:
    wanted = await asked(app)
    async with await as_role(app, Role.MEMBER) as member:
        page = await read(member, WORKFLOW)
        assert "Deciding needs the role approver." in words(page)
        assert "/approve" not in page
        assert (await member.post(f"{WORKFLOW}/{wanted}/approve")).status_code == 403


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


@pytest.mark.parametrize(
    ("state", "reached", "expected"),
    [
        (SubmissionState.RECEIVED, [], "now next next next"),
        (SubmissionState.TIER2_SCANNING, [SubmissionState.TIER1_SCANNING], "done done now next"),
        (SubmissionState.AWAITING_APPROVAL, [], "done done done now next"),
        (
            SubmissionState.PUBLISHED,
            [SubmissionState.AWAITING_APPROVAL],
            "done done done done ended",
        ),
        (SubmissionState.REJECTED, [SubmissionState.TIER1_SCANNING], "done done skipped ended"),
        (SubmissionState.WITHDRAWN, [SubmissionState.PUBLISHED], "done done done done ended"),
    ],
)
def test_steps(state: SubmissionState, reached: list[SubmissionState], expected: str) -> None:
    shown = steps(state, dict.fromkeys(reached, 1))
    assert " ".join(step.status for step in shown) == expected


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
