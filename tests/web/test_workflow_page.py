"""Requests for approval as a browser without scripts meets them: seen, decided, many at once."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inprocess import Application, application
from safelight.accounts.access import Role
from safelight.approvals.workflow import Approvals, Question
from safelight.infra.injected import Clock
from submissions.pictures import photo
from web.reading import as_role, browser, read, shows, words

WORKFLOW, LIST = "/app/default/workflow", "/app/default/submissions"
BLOCKLIST = "/api/organizations/default/blocklist"
JSON = {"accept": "application/json"}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as app:
        yield app


async def asked(app: Application, title: str = "May this go out?") -> str:
    question = Question("default", title, "It shows\na face.", {"type": "user", "name": "ada"})
    return (await app.registry.get(Approvals).request_approval(question)).id


async def in_order(app: Application, *ids: str) -> None:
    """Whatever the clock said: the first has waited longest."""
    for at, one in enumerate(ids):
        await app.db.execute("UPDATE approvals SET created_at = $2 WHERE id = $1", one, at)


async def test_the_longest_waiting_comes_first_and_is_decided(app: Application) -> None:
    yes, no, open_one = await asked(app, "One?"), await asked(app, "Two?"), await asked(app, "<3>")
    await in_order(app, yes, no, open_one)
    async with browser(app) as client:
        page = await read(client, WORKFLOW)
        assert re.findall(r'class="request[^>]* id="(\w+)"', page) == [yes, no, open_one]
        assert "Asked by ada" in words(page)
        assert "It shows a face." in words(page)
        assert "Rejected by itself if nobody decides before" in words(page)
        await client.post(f"{WORKFLOW}/{yes}/approve")
        reasons = {"common": "It is not for everybody.", "reason": " Too dark. "}
        answer = await client.post(f"{WORKFLOW}/{no}/reject", data=reasons)
        assert (answer.status_code, answer.headers["location"]) == (303, WORKFLOW)
        waiting = await read(client, WORKFLOW)
        assert "Waiting 1 Approved Rejected" in words(waiting)
        assert ("<3>" in words(waiting), "One?" in waiting) == (True, False)
        rejected = words(await read(client, f"{WORKFLOW}?status=rejected"))
        assert re.search(r"Two\? By bootstrap , .* Asked by ada", rejected)
        assert "It is not for everybody. Too dark. Rejected" in rejected
        assert "One?" in words(await read(client, f"{WORKFLOW}?status=approved"))
        await read(client, f"{WORKFLOW}?status=nonsense", 422)

        again = await client.post(f"{WORKFLOW}/{no}/approve")
        assert (again.status_code, "is rejected already" in words(again.text)) == (409, True)
        silent = await client.post(f"{WORKFLOW}/{open_one}/reject", data={"reason": "  "})
        assert (silent.status_code, "Say why" in words(silent.text)) == (422, True)
        for wrong in ("apr_none", "%00"):
            assert (await client.post(f"{WORKFLOW}/{wrong}/approve")).status_code == 404
        gone = words(await read(client, f"{WORKFLOW}?request={no}"))
        assert "Two? is rejected already by bootstrap" in gone
        assert open_one in await read(client, f"{WORKFLOW}?request={open_one}")


async def test_many_are_decided_at_once(app: Application) -> None:
    ids = [await asked(app, f"{number}?") for number in range(4)]
    where, listed = f"{WORKFLOW}/decide", f"{WORKFLOW}?view=list"
    async with browser(app) as client:
        assert (await read(client, listed)).count('type="checkbox" name="id"') == 4
        await client.post(f"{WORKFLOW}/{ids[0]}/reject", data={"reason": "No."})
        answer = await client.post(where, data={"verdict": "approve", "id": [*ids[:3], "apr_x"]})
        page = words(await read(client, answer.headers["location"]))
        assert "2 requests decided. 2 were decided by somebody else before." in page
        for wrong in ({"verdict": "approve"}, {"verdict": "perhaps", "id": ids[3]}):
            refused = await client.post(where, data=wrong)
            assert (refused.status_code, "Choose some" in words(refused.text)) == (422, True)
        refused = await client.post(where, data={"verdict": "reject", "id": ids[3]})
        assert "Say why" in words(refused.text)
        await client.post(where, data={"verdict": "reject", "id": ids[3], "reason": "Late."})
        assert "Nothing waits" in words(await read(client, listed))
        assert "Late." in words(await read(client, f"{WORKFLOW}?status=rejected"))


async def test_decided_ones_come_in_pages(app: Application) -> None:
    one = await asked(app, "First?")
    async with browser(app) as client:
        await client.post(f"{WORKFLOW}/{one}/approve")
        await app.db.execute(
            "INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object("
            "'id', 'apr_' || n, 'created_at', n))).* FROM approvals a, generate_series(1, 60) n"
        )
        page = await read(client, f"{WORKFLOW}?status=approved")
        older = re.search(r'rel="next" href="([^"]+)"', page)
        assert older is not None
        rest = await read(client, html.unescape(older[1]))
        assert (page.count('class="publication"'), rest.count('class="publication"')) == (50, 11)
        await read(client, f"{WORKFLOW}?status=approved&cursor=x", 422)


async def test_who_may_not_decide_can_look(app: Application) -> None:
    wanted = await asked(app)
    for role in (Role.VIEWER, Role.MEMBER):
        async with await as_role(app, role) as member:
            page = await read(member, WORKFLOW)
            assert "Deciding needs the role approver." in words(page)
            assert "/approve" not in page
            assert "checkbox" not in await read(member, f"{WORKFLOW}?view=list")
            for path in (f"{wanted}/approve", f"{wanted}/reject", "decide"):
                assert (await member.post(f"{WORKFLOW}/{path}")).status_code == 403


async def test_what_ran_out_says_so(app: Application) -> None:
    wanted = await asked(app)
    now = app.registry.get(Clock).now_ms()
    await app.db.execute("UPDATE approvals SET expires_at = $1", now - 1)
    async with browser(app) as client:
        answer = await client.post(f"{WORKFLOW}/{wanted}/approve")
        assert (answer.status_code, "expired already" in words(answer.text)) == (409, True)
        page = words(await read(client, f"{WORKFLOW}?status=rejected"))
        assert "Nobody decided in time," in page


async def test_the_known_twin_is_beside_it_and_both_are_ruled_out(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        application(database_url, tmp_path, worker=True) as app,
        browser(app) as client,
        await as_role(app, Role.APPROVER) as approver,
        await as_role(app, Role.VIEWER) as viewer,
    ):
        made = []
        for name, state in (("cat.jpg", "PUBLISHED"), ("again.jpg", "AWAITING_APPROVAL")):
            files = {"file": (name, photo())}
            assert (await client.post("/api/upload", files=files)).is_success
            await shows(client, f"{LIST}/new?q={name}", "thumbnail?v=")
            form = {"source": f"upload:{name}", "title": f"<{name}>"}
            made.append((await client.post(LIST, data=form)).headers["location"])
            await shows(client, made[-1], f'data-state="{state}"')
        first, second = (address.rpartition("/")[2] for address in made)

        page = await read(approver, WORKFLOW)
        assert f"/api/v1/submissions/{second}/preview" in page
        assert f'src="/public/{first}"' in page
        assert "as <cat.jpg>" in words(page)
        assert "A person has to look This image is published already" in words(page)
        assert "Block this picture" not in page
        seen = await read(viewer, WORKFLOW)
        assert "/preview" not in seen
        assert "/uploads/again.jpg/thumbnail?size=1280" in seen
        wanted = re.findall(r'id="(apr_\w+)"', page)[0]
        assert f'/workflow#{wanted}"' in await read(approver, made[1])

        form = {"reason": "Never again.", "block": "true"}
        path = f"{WORKFLOW}/{wanted}/reject"
        assert (await approver.post(path, data=form)).status_code == 403
        words_only = await asked(app)
        refused = await client.post(f"{WORKFLOW}/{words_only}/reject", data=form)
        assert refused.status_code == 404
        assert "Block this picture for good" in await read(client, WORKFLOW)
        assert (await client.post(path, data=form)).status_code == 303
        blocked = (await client.get(BLOCKLIST, headers=JSON)).json()["items"]
        assert [one["note"] for one in blocked] == ["Ruled out by an approver."]
        await shows(client, made[0], 'data-state="WITHDRAWN"')
        page = words(await read(client, made[1]))
        assert "Never again." in page
        assert "Decision failed" in page
