"""Somebody else's submission answers as one that does not exist, to the letter."""

import pytest

from safelight.accounts.access import Role
from submissions.desk import ORG, Desk

ROUTES = [("GET", ""), ("GET", "/history"), ("POST", "/withdraw"), ("GET", "/preview")]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_foreign_one_and_none_answer_alike(desk: Desk, method: str, path: str) -> None:
    theirs = await desk.submit()
    async with await desk.as_role(Role.ADMIN, "globex") as stranger:
        foreign = await stranger.request(method, f"/api/v1/submissions/{theirs}{path}")
        unknown = await stranger.request(method, f"/api/v1/submissions/sub_{'x' * 20}{path}")
    assert (foreign.status_code, foreign.content) == (404, unknown.content)
    assert foreign.headers.keys() == unknown.headers.keys()
    assert (await desk.see(theirs))["state"] == "RECEIVED"


async def test_blocking_a_foreign_one(desk: Desk) -> None:
    theirs = await desk.submit()
    await desk.work()
    async with await desk.as_role(Role.ADMIN, "globex") as stranger:
        path = "/api/organizations/globex/blocklist"
        foreign = await stranger.post(path, json={"submission": theirs})
        unknown = await stranger.post(path, json={"submission": "sub_none"})
        elsewhere = f"/api/organizations/{ORG}/blocklist"
        assert (await stranger.post(elsewhere, json={"submission": theirs})).status_code == 404
    assert (foreign.status_code, foreign.content) == (404, unknown.content)
