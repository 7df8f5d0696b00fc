"""Every route of the application against every kind of caller, generated from the guards.

A new route is walked by itself. It has to carry a guard, and if it shows a thing with an id, EXAMPLES
has to know how to make one in the organization `acme`.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message

from accounts.world import CHEAP
from harness import picture
from safelight.accounts import repo
from safelight.accounts.access import Grant, Role
from safelight.accounts.describe import describe
from safelight.accounts.guard import (
    COOKIE,
    Allow,
    AllowById,
    Guard,
    GuardedRoute,
    MetricsReader,
    OpenToEveryone,
    OperatorOnly,
    SignedIn,
    UserOnly,
    guarded_routes,
)
from safelight.accounts.members import Members
from safelight.accounts.origin import SAFE_METHODS
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.tokens import Tokens
from safelight.app import create_api, create_app
from safelight.generations.lifecycle import key_of
from safelight.http.frame import Registry
from safelight.infra.db import Database
from safelight.objects.store import Facts, ObjectStore
from safelight.settings import load
from safelight.wiring import open_services

OPEN = ("/healthz", "/readyz", "/login", "/public", "/webhooks", "/static")
CODES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND"}
READING = SAFE_METHODS | {"SOCKET"}
# Their questions are too long for an address; they change nothing.
READING_BY_POST = {
    "/api/organizations/{org}/uploads/download",
    "/app/{org}/upload/download",
}
KNOWN = (Allow, AllowById, SignedIn, UserOnly, OperatorOnly, MetricsReader)
ALLOWED = 200  # stands for any answer that is not a refusal


@dataclass(frozen=True)
class Person:
    """A kind of caller, and what it holds in `acme`."""

    name: str
    role: Role | None = None
    operator: bool = False
    token: str | None = None


def destruction(route: GuardedRoute) -> tuple[bool, bool, int]:
    """What deletes is walked last, a part before the whole: nothing goes before it was asked for.
    Forms that delete come after all, and meet what is gone."""
    deletes, by_form = route.method == "DELETE", route.path.endswith("/delete")
    return by_form, deletes, -len(route.path) if deletes else 0


ROUTES = sorted(guarded_routes(create_api(development=False)), key=destruction)


def url_of(route: GuardedRoute, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "x"), route.path)


def expected(guard: Guard, person: Person) -> set[int]:
    if isinstance(guard, OpenToEveryone):
        return {ALLOWED}
    if not isinstance(guard, KNOWN):
        return {401, 404}  # a credential of its own, which none of these callers has
    if person.token is None:
        return {401}
    return {expected_of_token(guard, person)}


def expected_of_token(guard: Guard, person: Person) -> int:
    if isinstance(guard, UserOnly):
        return 403
    if isinstance(guard, OperatorOnly | MetricsReader):
        return ALLOWED if person.operator else 403
    if isinstance(guard, Allow | AllowById):
        if person.role is None:
            return 404
        return ALLOWED if person.role >= guard.role else 403
    return ALLOWED


def test_there_are_routes() -> None:
    paths = {route.path for route in ROUTES}
    assert {"/api/upload", "/login", "/", "/api/organizations/{org}/members"} <= paths


def test_every_route_has_a_guard() -> None:
    assert [f"{route.method} {route.path}" for route in ROUTES if route.guard is None] == []


def test_open_is_what_the_contract_opens_and_nothing_else() -> None:
    open_paths = {route.path for route in ROUTES if isinstance(route.guard, OpenToEveryone)}
    assert [path for path in open_paths if not path.startswith(OPEN)] == []


def test_operators_alone_reach_their_routes() -> None:
    for route in ROUTES:
        if route.path.startswith(("/admin", "/api/v1/admin")):
            assert isinstance(route.guard, OperatorOnly), route


def test_what_changes_something_is_not_for_viewers() -> None:
    for route in ROUTES:
        reads = route.method in READING or route.path in READING_BY_POST
        if not reads and isinstance(route.guard, Allow | AllowById):
            assert route.guard.role > Role.VIEWER, route


async def test_the_description_says_what_each_route_needs() -> None:
    api = create_api(development=False)
    schema = describe(api.openapi(), guarded_routes(api))
    assert describe(api.openapi(), guarded_routes(api)) == schema
    members = schema["paths"]["/api/organizations/{org}/members"]["get"]
    assert [one["name"] for one in members["parameters"]] == ["org", "limit", "cursor"]
    assert members["description"] == "Needs the role `admin`."
    upload = schema["paths"]["/api/upload"]["post"]
    assert "organizationId" in [one["name"] for one in upload["parameters"]]
    assert upload["security"] == [{"token": []}, {"session": []}]
    assert schema["paths"]["/healthz"]["get"]["security"] == []
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert declared == set(re.findall(r"\{(\w+)", path)), path


@pytest.fixture
async def registry(database_url: str, tmp_path: Path) -> AsyncIterator[Registry]:
    settings = load({"data_dir": tmp_path, "database_pool_size": 6})
    async with open_services(settings, database_url) as opened:
        for organization in ("acme", "globex"):
            await opened.get(Members).make_organization(organization)
        yield opened


async def people(registry: Registry) -> list[Person]:
    async def token(organization: str, role: Role, *, operator: bool = False) -> str:
        grant = Grant(role, operator)
        _, secret = await registry.get(Tokens).make(organization, grant, name="t", maker=None)
        return secret

    insiders = [Person(role, role, token=await token("acme", role)) for role in Role]
    operator = await token("globex", Role.ADMIN, operator=True)
    return [
        Person("anonymous"),
        *insiders,
        Person("operator elsewhere", operator=True, token=operator),
        Person("admin elsewhere", token=await token("globex", Role.ADMIN)),
    ]


@dataclass(frozen=True)
class Maker:
    """An admin of acme, and what the server is made of."""

    registry: Registry
    client: httpx.AsyncClient

    async def post(self, path: str, **body: Any) -> Any:
        response = await self.client.post(path, **body)
        assert response.is_success, response.text
        return response.json()


async def an_image(maker: Maker) -> str:
    files = {"file": ("a.png", picture("PNG"))}
    return str((await maker.post("/api/upload", files=files))["imageId"])


async def a_generation(maker: Maker) -> str:
    wanted = {"model": "studio/horizon", "input": {"prompt": "hills"}}
    return str((await maker.post("/generations", json=wanted))["id"])


async def an_artifact(maker: Maker) -> str:
    content, artifact_id = picture(), "0197f3a4-0000-7000-8000-000000000001"
    await put(maker.registry, key_of(artifact_id), content, {})
    await maker.registry.get(Database).execute(
        "INSERT INTO artifacts VALUES ($1, 'acme', 'gen', 'image/jpeg', $2, $3, '{}', 0)",
        artifact_id,
        len(content),
        hashlib.sha256(content).hexdigest(),
    )
    return artifact_id


async def a_submission(maker: Maker) -> str:
    await put(maker.registry, "acme/a.jpg", picture(), {"organizationId": "acme", "name": "a.jpg"})
    wanted = {"source": {"upload": "a.jpg"}}
    return str((await maker.post("/api/v1/submissions", json=wanted))["id"])


async def put(registry: Registry, key: str, content: bytes, metadata: dict[str, str]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    await registry.get(ObjectStore).put(key, chunks(), Facts("image/jpeg", metadata))


# How to make one thing of each kind that routes find by its id.
EXAMPLES: dict[str, Callable[[Maker], Awaitable[str]]] = {
    "image_id": an_image,
    "generation_id": a_generation,
    "artifact_id": an_artifact,
    "submission_id": a_submission,
}


async def examples(registry: Registry, app: ASGIApp, admin: Person) -> dict[str, str]:
    values = {"org": "acme"}
    async with caller(app) as client:
        client.headers["authorization"] = f"Bearer {admin.token}"
        for name, make in EXAMPLES.items():
            values[name] = await make(Maker(registry, client))
    return values


def caller(app: ASGIApp) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://safelight.test")


async def ask(
    app: ASGIApp, route: GuardedRoute, url: str, headers: dict[str, str]
) -> tuple[int, Any]:
    """The status and the code of the answer."""
    if route.method == "SOCKET":
        return await knock(app, url, headers)
    async with caller(app) as client:
        response = await client.request(route.method, url, headers=headers)
    if route.method == "HEAD":
        return response.status_code, CODES.get(response.status_code)  # it has no body to tell
    is_json = response.headers.get("content-type", "") == "application/json"
    body = response.json() if is_json and response.content else None
    return response.status_code, body.get("code") if isinstance(body, dict) else None


async def knock(app: ASGIApp, url: str, headers: dict[str, str]) -> tuple[int, Any]:
    """A socket that leaves as soon as it is let in; a refusal comes before the upgrade."""
    path, _, query = url.partition("?")
    sent: list[Message] = []
    scope = {
        "type": "websocket", "scheme": "ws", "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "subprotocols": [], "server": ("safelight.test", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    incoming: list[Message] = [
        {"type": "websocket.disconnect", "code": 1000},
        {"type": "websocket.connect"},
    ]

    async def receive() -> Message:
        return incoming.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if sent[0]["type"] == "websocket.accept":
        return 101, None
    body = b"".join(part.get("body", b"") for part in sent[1:])
    return sent[0]["status"], re.findall(rb'"code":"(\w+)"', body)[0].decode()


def mismatch(wanted: set[int], status: int, code: Any) -> bool:
    if status >= 500:
        return True
    if ALLOWED in wanted:
        return status in {401, 403}
    return status not in wanted or code != CODES[status]


async def test_every_route_against_every_caller(registry: Registry) -> None:
    app = create_app(registry)
    everybody = await people(registry)
    values = await examples(registry, app, everybody[4])
    wrong = []
    for route in ROUTES:
        assert route.guard is not None
        if isinstance(route.guard, AllowById):
            missing = set(re.findall(r"\{(\w+)", route.path)) - {"org", "tag"} - set(values)
            assert not missing, f"EXAMPLES does not know how to make {missing} of {route.path}"
        url = url_of(route, values)
        if isinstance(route.guard, Allow) and "{org}" not in route.path:
            url += "?organizationId=acme"
        for person in everybody:
            headers = {"authorization": f"Bearer {person.token}"} if person.token else {}
            status, code = await ask(app, route, url, headers)
            if mismatch(expected(route.guard, person), status, code):
                wrong.append(f"{route.method} {url} as {person.name}: {status} {code}")
    assert wrong == []


async def test_no_route_takes_a_cookie_from_another_sites_page(registry: Registry) -> None:
    db, app = registry.get(Database), create_app(registry)
    await repo.add_user(db, "usr_1", "ada", 0, operator=True)
    await repo.set_password(db, "usr_1", await CHEAP.hash("a password of ada's"))
    await repo.put_member(db, "acme", "usr_1", Role.ADMIN, 0)
    opened = await registry.get(SignIn).with_password(
        "ada", "a password of ada's", address=None, cookie=None
    )
    for route in ROUTES:
        if route.method in SAFE_METHODS or not isinstance(route.guard, KNOWN):
            continue  # no cookie opens what has a credential of its own
        for foreign in ({}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            headers = {"cookie": f"{COOKIE}={opened.cookie}", "host": "safelight.test", **foreign}
            answer = await ask(app, route, url_of(route, {"org": "acme"}), headers)
            assert answer == (403, "FORBIDDEN"), route
