"""Nothing that is not published is ever served: every state, every caller, every route."""

import re
from typing import Any

from safelight.accounts.access import Role
from safelight.accounts.guard import COOKIE, guarded_routes
from safelight.app import create_api
from safelight.submissions.lifecycle import SubmissionState
from submissions.desk import ORG, Desk
from submissions.pictures import photo


async def in_every_state(desk: Desk) -> dict[SubmissionState, str]:
    """A submission in each state, with its rendition stored where it ever could be."""
    desk.tools.score = 0.6
    found = {}
    for number, state in enumerate(SubmissionState):
        submission = await desk.submit(photo(), f"{number}.jpg")
        await desk.work()
        await desk.db.execute("UPDATE submissions SET state = $2 WHERE id = $1", submission, state)
        found[state] = submission
    stored = "SELECT count(*) FROM objects WHERE present AND key ~ '^renditions/'"
    assert await desk.db.fetchval(stored) == len(SubmissionState)
    return found


async def callers(desk: Desk) -> dict[str, dict[str, Any]]:
    everybody: dict[str, dict[str, Any]] = {"anonymous": {}}
    for role in Role:
        token = await desk.token(ORG, role)
        everybody[role] = {"headers": {"authorization": f"Bearer {token}"}}
    operator = await desk.token(ORG, Role.ADMIN, operator=True)
    everybody["operator"] = {"headers": {"authorization": f"Bearer {operator}"}}
    stranger = await desk.token("globex", Role.ADMIN)
    everybody["stranger"] = {"headers": {"authorization": f"Bearer {stranger}"}}
    await desk.user("ada", {ORG: Role.ADMIN}, operator=True)
    everybody["signed in"] = {"cookies": {COOKIE: await desk.cookie("ada")}}
    return everybody


async def test_the_public_address(desk: Desk) -> None:
    submissions, everybody = await in_every_state(desk), await callers(desk)
    for who, options in everybody.items():
        async with desk.client(**options) as client:
            for state, submission in submissions.items():
                for method in ("GET", "HEAD"):
                    response = await client.request(method, f"/public/{submission}")
                    wanted = 200 if state is SubmissionState.PUBLISHED else 404
                    assert response.status_code == wanted, (who, state, method)
                    if wanted == 404:
                        assert "etag" not in response.headers
                        assert response.headers["content-type"] == "application/json"
            for strange in ("sub_x", "..%2f..%2fetc", "%00", "a" * 3000):
                assert (await client.get(f"/public/{strange}")).status_code == 404


async def test_no_other_route_gives_the_picture_away(desk: Desk) -> None:
    """Except to those who have to decide about it, while they have to."""
    submissions, everybody = await in_every_state(desk), await callers(desk)
    routes = [
        route.path
        for route in guarded_routes(create_api(development=False))
        if route.method == "GET" and "{submission_id}" in route.path
    ]
    assert len(routes) == 5
    shown = set()
    for who, options in everybody.items():
        async with desk.client(**options) as client:
            for path in routes:
                for state, submission in submissions.items():
                    url = re.sub(r"\{submission_id\}", submission, path)
                    response = await client.get(url)
                    if response.headers["content-type"].startswith("image/"):
                        shown.add((path, state, who))
    public = {("/public/{submission_id}", SubmissionState.PUBLISHED, who) for who in everybody}
    preview = "/api/v1/submissions/{submission_id}/preview"
    deciders = ("approver", "admin", "operator", "signed in")
    assert shown == public | {(preview, SubmissionState.AWAITING_APPROVAL, who) for who in deciders}


async def test_what_is_pinned_or_rendered_is_no_upload(desk: Desk) -> None:
    """Nobody can submit, and so publish, what was pinned for another submission."""
    submission = await desk.submit()
    async with await desk.as_role(Role.ADMIN) as client:
        for name in (f"submissions/{submission}", f"renditions/{submission}", f"../{submission}"):
            response = await client.post("/api/v1/submissions", json={"source": {"upload": name}})
            assert response.status_code == 404
