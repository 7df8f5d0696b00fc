"""A short road to the one route that is asked more often than all others together.

Between the frame and a route the framework matches addresses, keeps stacks of what is to be closed,
solves dependencies and checks parameters: more work than the route itself has with a request that
is as plain as can be, without a query. Such a request goes straight to `handle`, which calls the
same guard and the same function with what the framework would give it.

There is one truth for whatever is rare. What is not plain goes the long road, and so does whatever
fails: the route raises there what was raised here (`raise_again`), as if it had just happened, and
counting, telling and answering it are done where they always are.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_FAILED = "safelight.failed"


class ShortRoad:
    def __init__(
        self, api: FastAPI, path: str, handle: Callable[[Request], Awaitable[Response]]
    ) -> None:
        """To POST `path`, which is a route of `api` without a parameter in it."""
        self._api = api
        self._path = path
        self._handle = handle
        self._route = _route_of(api, path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_plain(scope):
            await self._api(scope, receive, send)
            return
        scope["route"] = self._route  # by which the frame knows it
        try:
            response = await self._handle(Request(scope, receive))
        except Exception as error:  # noqa: BLE001 - raised again by the route
            scope[_FAILED] = error
        if _FAILED in scope:
            await self._api(scope, receive, send)
        else:
            await response(scope, receive, send)

    def _is_plain(self, scope: Scope) -> bool:
        return (
            scope["path"] == self._path
            and scope["type"] == "http"
            and scope["method"] == "POST"
            and not scope["query_string"]
            and not scope["root_path"]
        )


def raise_again(request: Request) -> None:
    """For the route at the end of both roads."""
    if error := request.scope.pop(_FAILED, None):
        raise error


def _route_of(api: FastAPI, path: str) -> Any:
    return next(
        route.original_route
        for route in iter_route_contexts(api.routes)
        if route.path == path and "POST" in (route.methods or ())
    )
