"""The API of members and tokens as a client sees it."""

import json
from typing import Any

import httpx
import pytest

from accounts.world import World
from safelight.accounts.access import Role


@pytest.fixture
async def admin(world: World) -> httpx.AsyncClient:
    await world.organization("acme", "globex")
    return world.program(await world.token("acme", Role.ADMIN))


MEMBERS = "/api/organizations/acme/members"
INVITATIONS = "/api/organizations/acme/invitations"
TOKENS = "/api/organizations/acme/tokens"


async def error(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"error", "code"}
    return response.status_code, body["code"]


async def test_me(world: World, admin: httpx.AsyncClient) -> None:
    body = (await admin.get("/api/me")).json()
    assert body.pop("id").startswith("tok_")
    assert body == {
        "kind": "token",
        "name": "test",
        "operator": False,
        "organizations": [{"id": "acme", "role": "admin"}],
    }
    await world.user("ada", {"globex": Role.VIEWER, "acme": Role.MEMBER}, operator=True)
    async with world.browser(await world.cookie("ada")) as client:
        body = (await client.get("/api/me", headers={"accept": "*/*"})).json()
    assert (body["kind"], body["name"], body["operator"]) == ("user", "ada", True)
    assert [one["id"] for one in body["organizations"]] == ["acme", "globex"]


async def test_members_come_and_go(world: World, admin: httpx.AsyncClient) -> None:
    made = await admin.put(f"{MEMBERS}/bob", json={"role": "member"})
    assert made.status_code == 200
    body = made.json()
    link = body.pop("signInLink")
    assert body.pop("createdAt").endswith("Z")
    assert body.pop("expiresAt").endswith("Z")
    assert body == {
        "organizationId": "acme", "username": "bob", "role": "member", "madeBy": "test",
    }  # fmt: skip
    assert (await admin.get(MEMBERS)).json()["items"] == []
    await world.sign_in.with_code(link.removeprefix("/login?code="), cookie=None)
    changed = await admin.put(f"{MEMBERS}/bob", json={"role": "approver"})
    assert changed.json()["role"] == "approver"
    assert set(changed.json()) == {"username", "role", "createdAt"}
    assert (await admin.delete(f"{MEMBERS}/bob")).status_code == 204
    assert await error(await admin.delete(f"{MEMBERS}/bob")) == (404, "NOT_FOUND")


async def test_lists_page(world: World, admin: httpx.AsyncClient) -> None:
    for number in range(5):
        await admin.put(f"{MEMBERS}/new{number}", json={"role": "viewer"})
        await world.user(f"user{number}", {"acme": Role.VIEWER})
        world.clock.advance(seconds=1)
        await admin.post(TOKENS, json={"role": "viewer", "name": f"t{number}"})

    async def names(path: str, field: str) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
            body: dict[str, Any] = (await admin.get(path, params=query)).json()
            assert len(body["items"]) <= 2
            found += [item[field] for item in body["items"]]
            cursor = body["nextCursor"]
            if cursor is None:
                return found

    assert await names(MEMBERS, "username") == [f"user{n}" for n in range(5)]
    assert await names(INVITATIONS, "username") == [f"new{n}" for n in range(5)]
    assert await names(TOKENS, "name") == ["t4", "t3", "t2", "t1", "t0", "test"]
    for query in ("limit=0", "limit=201", "limit=x", "cursor=x"):
        assert await error(await admin.get(f"{TOKENS}?{query}")) == (422, "INVALID_REQUEST")
    cursor = (await admin.get(f"{MEMBERS}?limit=1")).json()["nextCursor"]
    assert await error(await admin.get(f"{TOKENS}?cursor={cursor}")) == (422, "INVALID_REQUEST")


async def test_a_token_is_shown_once_and_works(world: World, admin: httpx.AsyncClient) -> None:
    asked = {"role": "member", "name": "ci", "expiresInSeconds": 60}
    made = await admin.post(TOKENS, json=asked)
    assert made.status_code == 201
    body = made.json()
    async with world.program(body["token"]) as client:
        assert (await client.get("/api/me")).json()["name"] == "ci"
        assert (await admin.delete(f"{TOKENS}/{body['id']}")).status_code == 204
        assert (await admin.delete(f"{TOKENS}/{body['id']}")).status_code == 204
        assert await error(await client.get("/api/me")) == (401, "UNAUTHENTICATED")
    listed = (await admin.get(TOKENS)).json()["items"]
    assert body["token"] not in str(listed)
    [found] = [item for item in listed if item["id"] == body["id"]]
    assert (found["role"], found["createdBy"], found["operator"]) == ("member", "test", False)
    assert found["revokedAt"] is not None
    assert found["expiresAt"] is not None
    assert found["lastUsedAt"] is not None
    assert body["lastUsedAt"] is None


async def test_another_organizations_token_cannot_be_revoked(
    world: World, admin: httpx.AsyncClient
) -> None:
    async with world.program(await world.token("globex", Role.ADMIN)) as other:
        theirs = (await other.get("/api/me")).json()["id"]
        assert await error(await admin.delete(f"{TOKENS}/{theirs}")) == (404, "NOT_FOUND")
        assert (await other.get("/api/me")).status_code == 200


async def test_no_admin_makes_an_operator(admin: httpx.AsyncClient) -> None:
    asked = {"role": "admin", "operator": True}
    assert await error(await admin.post(TOKENS, json=asked)) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    "body",
    [{}, {"role": "king"}, {"role": "viewer", "name": ""}, {"role": "viewer", "name": "x" * 101}, {"role": None},
     {"role": "viewer", "name": "a\nb"}, {"role": "viewer", "name": "a\x00"}, {"role": "viewer", "expiresInSeconds": 0},
     {"role": "viewer", "expiresInSeconds": 10**30}, {"role": "viewer", "surprise": 1}, [], 1,
     {"role": "viewer", "name": "\ud800"}],
)  # fmt: skip
async def test_bad_bodies_are_422(admin: httpx.AsyncClient, body: Any) -> None:
    sent = json.dumps(body)
    response = await admin.post(TOKENS, content=sent, headers={"content-type": "application/json"})
    assert await error(response) == (422, "INVALID_REQUEST")


async def test_bodies_that_are_not_json(admin: httpx.AsyncClient) -> None:
    json_type = {"content-type": "application/json"}
    assert await error(await admin.post(TOKENS, content=b"{", headers=json_type)) == (
        400,
        "INVALID_JSON",
    )
    form = await admin.post(TOKENS, data={"role": "viewer"})
    assert await error(form) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("name", ["Bob", "a%20b", "%00", "x" * 65, "ä"])
async def test_bad_usernames_are_422(admin: httpx.AsyncClient, name: str) -> None:
    response = await admin.put(f"{MEMBERS}/{name}", json={"role": "viewer"})
    assert await error(response) == (422, "INVALID_REQUEST")


async def test_the_last_admin_is_409(world: World, admin: httpx.AsyncClient) -> None:
    await world.user("ada", {"acme": Role.ADMIN})
    assert await error(await admin.delete(f"{MEMBERS}/ada")) == (409, "CONFLICT")
