"""The pages of the reference against the description that they are made of."""

import html
import json
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema_rs
import pytest

from accounts.world import World
from described import description
from safelight.accounts.access import Grant, Role
from safelight.accounts.guard import guarded_routes
from safelight.app import create_api
from safelight.settings import load
from safelight.web.reference.codes import error_codes
from safelight.web.reference.curl import curl
from safelight.web.reference.document import Operation, groups
from safelight.web.reference.examples import example
from safelight.web.reference.shapes import row, rows
from safelight.wiring import MESSAGES

SCHEMAS = description()["components"]["schemas"]
NONE: dict[str, Any] = {}


@pytest.fixture
async def world(world: World) -> World:
    world.registry.add(MESSAGES)
    await world.organization("default")
    await world.user("vera", {"default": Role.VIEWER})
    return world


def operations() -> dict[str, Operation]:
    api = create_api(development=False)
    read = groups(api.openapi(), guarded_routes(api))
    return {one.id: one for group in read for one in group.operations}


async def pages_of(client: httpx.AsyncClient) -> dict[str, str]:
    first = await client.get("/reference")
    assert first.status_code == 200, first.text
    found = {"/reference": first.text}
    for path in re.findall(r'class="reference__group"[^>]*href="([^"]+)"', first.text):
        found[path] = (await client.get(path)).text
    return found


async def test_every_operation_is_there_and_every_link_leads_somewhere(world: World) -> None:
    async with world.browser(await world.cookie("vera")) as client:
        pages = await pages_of(client)
    whole = "".join(pages.values())
    told = operations()
    assert len(told) == sum(len(methods) for methods in description()["paths"].values())
    assert len(pages) > 10
    for one in told.values():
        assert f'<div class="operation__body" id="{one.id}">' in whole, one.path
        assert f'data-operation="{one.id}"' in whole
        assert html.escape(one.path) in whole
    for path, page in pages.items():
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), path
        for target in re.findall(r'href="((?:/reference)?[^"]*#[^"]+)"', page):
            where, _, name = target.partition("#")
            there = pages[where or path]
            assert f'id="{name}"' in there, f"{path} → {target}"
        assert "⟦" not in page
        for source in re.findall(r'<(?:link|script|img)[^>]* (?:src|href)="([^"]+)"', page):
            assert not urlsplit(source).netloc
        assert "<script>" not in page
        assert " style=" not in page
    for message in MESSAGES.types:
        assert f'id="message-{message}"' in pages["/reference/live"]
    for code in error_codes():
        assert f'id="{code.code}"' in pages["/reference/errors"]


async def test_whom_it_is_for(world: World) -> None:
    async with world.browser() as client:
        assert (await client.get("/reference/library")).headers["location"].startswith("/login")
    async with world.browser(await world.cookie("vera")) as client:
        page = (await client.get("/reference/library")).text
        assert 'data-organization="default"' in page
        assert "/api/organizations/default/uploads/harbour.jpg" in page
        assert (await client.get("/reference/none")).status_code == 404
        assert 'aria-current="page"' in page
        world.registry.add(load({"public_url": "https://images.example.org"}))
        page = (await client.get("/reference/library")).text
        assert "https://images.example.org/api/organizations/default" in page
    _, secret = await world.tokens.make("default", Grant(Role.VIEWER), name="t", maker=None)
    async with world.program(secret) as client:
        assert (await client.get("/reference")).status_code == 200


def test_an_example_is_one() -> None:
    wrong = {}
    for name in SCHEMAS:
        whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
        made = json.loads(json.dumps(example({"$ref": whole["$ref"]}, SCHEMAS)))
        if problems := list(jsonschema_rs.Draft202012Validator(whole).iter_errors(made)):
            wrong[name] = (made, problems)
    assert wrong == {}


def test_who_may_and_what_it_does() -> None:
    told = {f"{one.method} {one.path}": one for one in operations().values()}
    upload = told["POST /api/upload"]
    assert (upload.who, upload.changes, upload.is_grave) == ("member", True, False)
    assert upload.body is not None
    assert upload.body.files == ("file",)
    assert "-F file=@photo.jpg" in curl(upload)
    assert json.loads(upload.trial)["files"] == ["file"]
    events = told["POST /api/events/objects"]
    assert (events.who, events.can_be_tried) == ("own credential", False)
    known = told["POST /api/organizations/{org}/uploads/known"]
    assert not known.changes
    assert told["DELETE /api/organizations/{org}/uploads/{name}"].is_grave
    assert told["POST /api/v1/admin/dead-letters/discard"].is_grave
    assert told["GET /healthz"].codes == []
    assert "authorization" not in curl(told["GET /healthz"]).lower()
    decide = told["POST /api/organizations/{org}/approvals/{approval_id}/approve"]
    assert "ALREADY_DECIDED" in decide.codes


def test_shapes_in_words() -> None:
    def kind(**schema: Any) -> str:
        return row("x", schema, NONE).kind

    assert kind(type="array", items={"type": "string"}) == "list of strings"
    assert kind(anyOf=[{"type": "integer"}, {"type": "null"}]) == "integer or null"
    assert kind(anyOf=[{"type": "integer"}, {"type": "string"}]) == "integer or string"
    assert kind(const=True) == "always true"
    assert row("x", {"type": "string", "minLength": 1, "maxLength": 1}, NONE).rules == (
        "1 to 1 character",
    )
    assert row("x", {"maxItems": 2000, "pattern": "^a$"}, NONE).rules == (
        "at most 2,000 items",
        "matches ^a$",
    )
    assert row("x", {"minimum": 0.0, "maximum": 1.0}, NONE).rules == ("0 to 1",)
    assert row("x", {"minimum": 1, "maximum": 2**62}, NONE).rules == ("at least 1",)
    tree = {"properties": {"a": {"type": "array", "items": {"$ref": "#/components/schemas/T"}}}}
    schemas = {"T": {"required": ["b"], "properties": {"b": {"type": "boolean", "default": False}}}}
    found = [(one.way, one.name, one.is_needed, one.default) for one in rows(tree, schemas)]
    assert found == [("", "a", False, None), ("a[].", "b", True, "false")]
