"""The API's description with what each route's guard asks for. Pure."""

import copy
from collections.abc import Iterable
from typing import Any

from safelight.accounts.guard import (
    COOKIE,
    ORGANIZATION_PARAMETER,
    Allow,
    AllowById,
    Guard,
    GuardedRoute,
    MetricsReader,
    OpenToEveryone,
    OperatorOnly,
)

_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token, `slt_…`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
_IN_PATH = {
    "name": "org",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The organization.",
}
_IN_QUERY = {
    "name": ORGANIZATION_PARAMETER,
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "For users of several organizations; a token has its own.",
}


def describe(schema: dict[str, Any], routes: Iterable[GuardedRoute]) -> dict[str, Any]:
    described = copy.deepcopy(schema)
    described.setdefault("components", {})["securitySchemes"] = _SCHEMES
    for route in routes:
        operation = described["paths"].get(route.path, {}).get(route.method.lower())
        if operation is not None and route.guard is not None:
            _complete(operation, route.path, route.guard)
    return described


def _complete(operation: dict[str, Any], path: str, guard: Guard) -> None:
    if isinstance(guard, OpenToEveryone):
        operation["security"] = []
        return
    operation["security"] = [{name: []} for name in _SCHEMES]
    if isinstance(guard, Allow):
        parameter = _IN_PATH if "{org}" in path else _IN_QUERY
        operation["parameters"] = [parameter, *operation.get("parameters", [])]
    words = [operation.get("description"), needs(guard)]
    operation["description"] = "\n\n".join(filter(None, words))


def needs(guard: Guard) -> str | None:
    if isinstance(guard, Allow | AllowById):
        return f"Needs the role `{guard.role}`."
    if isinstance(guard, OperatorOnly | MetricsReader):
        return "For operators."
    return None
