"""The API's description with what each route's guard asks for, read from the guards themselves."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import RouteContext, iter_route_contexts

from safelight.accounts.guard import (
    COOKIE,
    ORGANIZATION_PARAMETER,
    Allow,
    AllowById,
    Guard,
    MetricsReader,
    OpenToEveryone,
    OperatorOnly,
)

_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token, `slt_…`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
_IN_PATH = {"name": "org", "in": "path", "required": True, "schema": {"type": "string"}}
_IN_QUERY = {
    "name": ORGANIZATION_PARAMETER,
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "For users of several organizations; a token has its own.",
}


def describe(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        _complete(api.openapi(), api)
    return api.openapi_schema or {}


def guarded_routes(api: FastAPI) -> Iterator[tuple[RouteContext, Guard | None]]:
    """Every route the application serves, sockets included, with its guard."""
    for route in iter_route_contexts(api.routes):
        yield route, _guard_of(route)


def _guard_of(route: RouteContext) -> Guard | None:
    dependant = getattr(route, "dependant", None)
    calls = [found.call for found in dependant.dependencies] if dependant else []
    return next((call for call in calls if isinstance(call, Guard)), None)


def _complete(schema: dict[str, Any], api: FastAPI) -> None:
    schema.setdefault("components", {})["securitySchemes"] = _SCHEMES
    for route, guard in guarded_routes(api):
        path = schema["paths"].get(route.path_format, {})
        for method in route.methods or ():
            if guard is not None and method.lower() in path:
                _complete_operation(path[method.lower()], route.path_format or "", guard)


def _complete_operation(operation: dict[str, Any], path: str, guard: Guard) -> None:
    if isinstance(guard, OpenToEveryone):
        operation["security"] = []
        return
    operation["security"] = [{name: []} for name in _SCHEMES]
    if isinstance(guard, Allow):
        parameter = _IN_PATH if "{org}" in path else _IN_QUERY
        operation["parameters"] = [parameter, *operation.get("parameters", [])]
    words = [operation.get("description"), _needs(guard)]
    operation["description"] = "\n\n".join(filter(None, words))


def _needs(guard: Guard) -> str | None:
    if isinstance(guard, Allow | AllowById):
        return f"Needs the role `{guard.role}`."
    if isinstance(guard, OperatorOnly | MetricsReader):
        return "For operators."
    return None
