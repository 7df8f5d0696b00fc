"""Holds what the application answers against what its description says it answers."""

import json
from functools import cache
from typing import Any

import jsonschema_rs
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from safelight.app import create_api


class Checked:
    """Around an application: every JSON answer of a described route is compared. `problems` are
    sentences about those that say something else; the test that used it fails with them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.problems: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer()

        async def overhear(message: Message) -> None:
            answer.note(message)
            await send(message)

        try:
            await self._app(scope, receive, overhear)
        finally:
            if answer.whole and answer.body and (problem := _problem(scope, answer)):
                self.problems.append(problem)


class _Answer:
    def __init__(self) -> None:
        self.status = 0
        self.is_json = False
        self.body = b""
        self.whole = False

    def note(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = dict(message.get("headers", []))
            self.is_json = headers.get(b"content-type", b"").startswith(b"application/json")
        elif message["type"] == "http.response.body" and self.is_json:
            self.body += message.get("body", b"")
            self.whole = not message.get("more_body", False)


def _problem(scope: Scope, answer: _Answer) -> str | None:
    path = getattr(scope.get("route"), "path_format", None)
    operation = description()["paths"].get(path, {}).get(scope["method"].lower())
    if operation is None:
        return None
    where = f"{scope['method']} {path} {answer.status}"
    told = operation["responses"]
    found = told.get(str(answer.status)) or told.get(f"{answer.status // 100}XX")
    schema = ((found or {}).get("content") or {}).get("application/json", {}).get("schema")
    if not schema:
        return f"{where}: an answer that is not described"
    wrong = next(_validator(json.dumps(schema)).iter_errors(json.loads(answer.body)), None)
    return f"{where}: {wrong.message} at {list(wrong.instance_path)}" if wrong else None


@cache
def description() -> dict[str, Any]:
    return create_api(development=False).openapi()


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    components = json.loads(json.dumps(description()["components"]))
    for component in components["schemas"].values():
        if component.get("properties") is not None or component.get("type") == "object":
            component.setdefault("additionalProperties", False)  # a field nobody told of
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": components})
