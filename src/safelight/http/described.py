"""What the API's description says of answers: each route's shape, and one shape for refusals.

    router = APIRouter(route_class=Described)

    @router.get("/api/things", response_model=PageOf[ThingAnswer])

The shapes are TypedDicts in each feature's answers.py. Nothing is checked or copied when a request
is answered: the tests hold every answer they see against the description instead.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, NotRequired, TypeVar

from fastapi import Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from typing_extensions import TypedDict

T = TypeVar("T")
Responses = dict[int | str, dict[str, Any]]


class PageOf(TypedDict, Generic[T]):
    items: list[T]
    nextCursor: str | None


class Problem(TypedDict):
    error: str
    code: str
    details: NotRequired[dict[str, Any]]


class SubjectAnswer(TypedDict):
    type: str
    id: str


class EmptyAnswer(TypedDict):
    """An empty object."""


HistoryItem = TypedDict(
    "HistoryItem",
    {
        "seq": int,
        "at": str,
        "type": str,
        "from": NotRequired[str | None],
        "to": NotRequired[str],
        "reason": NotRequired[str],
        "beatenBy": NotRequired[dict[str, Any]],
        "attempt": NotRequired[int],
        "error": NotRequired[Any],
        "actor": NotRequired[dict[str, Any]],
    },
)

REFUSALS: Final[Responses] = {
    "4XX": {"model": Problem, "description": "Refused; `code` says why, `error` says it in words."},
    "5XX": {"model": Problem, "description": "Not the caller's fault; nothing was done by halves."},
}


class Described(APIRoute):
    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        response_model: Any = None,
        responses: Responses | None = None,
        status_code: int | None = None,
        **options: Any,
    ) -> None:
        told, good = dict(responses or {}), status_code or 200
        if response_model is not None and not isinstance(response_model, DefaultPlaceholder):
            told[good] = {"model": response_model} | told.get(good, {})
        if good in told and "model" not in told[good]:
            options["response_class"] = Response  # or it would say that it answers with JSON
        super().__init__(
            path, endpoint, response_model=None, responses=told, status_code=status_code, **options
        )


def bytes_of(*types: str, says: str) -> Responses:
    """Of a route that answers with bytes, whole or in part."""
    bodies = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in types}
    return {
        200: {"description": says, "content": bodies},
        206: {"description": "The part that `Range` asks for.", "content": bodies},
        304: {"description": "It is still what `If-None-Match` names."},
    }
