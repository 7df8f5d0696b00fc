"""The one place where an exception becomes an answer, in one shape, JSON or page."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from safelight import errors
from safelight.errors import SafelightError, public_words
from safelight.http.frame import READING, SECURITY_HEADERS
from safelight.infra.db import SHORT, STATEMENT_LOST, UNSTORABLE_TEXT

PageRenderer = Callable[[Request, int, dict[str, Any], Mapping[str, str]], Awaitable[Response]]
# Paths whose contract has its own words for a database that is away.
UnavailableAs = Mapping[str, type[SafelightError]]

_AWAY = (*STATEMENT_LOST, *SHORT)
_BY_STATUS: dict[int, type[SafelightError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    413: errors.FileTooLarge,
    415: errors.UnsupportedMediaType,
    429: errors.RateLimited,
    503: errors.Unavailable,
}


def install(
    app: FastAPI,
    *,
    development: bool,
    render_page: PageRenderer,
    unavailable_as: UnavailableAs,
) -> None:
    async def answer(request: Request, exception: Exception) -> Response:
        error = as_safelight_error(request, exception)
        if isinstance(error, errors.Unavailable) and request.url.path in unavailable_as:
            error = unavailable_as[request.url.path]()
        body: dict[str, Any] = {"error": _words(error), "code": error.code}
        if development:
            body["details"] = error.details or {"cause": repr(exception.__cause__ or exception)}
        headers = dict(error.headers)
        if isinstance(error, errors.RateLimited):
            headers["retry-after"] = str(error.retry_after)
        if isinstance(exception, HTTPException) and exception.headers:
            headers.update(exception.headers)  # Allow, on 405
        response = (
            await render_page(request, error.status, body, headers)
            if _wants_page(request)
            else JSONResponse(body, error.status)
        )
        response.headers.update(headers)
        return response

    handler: Callable[[Request, Exception], Awaitable[Response]] = answer
    for kind in (
        SafelightError,
        HTTPException,
        RequestValidationError,
        WebSocketRequestValidationError,
        *_AWAY,
        *UNSTORABLE_TEXT,
        ClientDisconnect,
        Exception,
    ):
        app.add_exception_handler(kind, handler)
    app.router.default = _nowhere


async def _nowhere(_: Scope, __: Receive, ___: Send) -> None:
    """Sockets too: by itself the router would send them away without a word."""
    raise errors.NotFound


def written_out(error: SafelightError) -> bytes:
    """The same answer by hand, where there is no request yet that it could answer."""
    body = json.dumps({"error": error.message, "code": error.code}).encode()
    headers = [
        *SECURITY_HEADERS,
        *((name.encode(), value.encode()) for name, value in error.headers.items()),
        (b"cache-control", b"no-store"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    first = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()
    lines = [first, *(b"%b: %b" % header for header in headers), b"", body]
    return b"\r\n".join(lines)


def _words(error: SafelightError) -> str:
    """The rest is for the log, where the request's id finds it."""
    words = public_words(error)
    if words != error.message:
        structlog.get_logger().warning("request failed", code=error.code, error=error.message)
    return words


def as_safelight_error(request: Request, exception: Exception) -> SafelightError:
    if isinstance(exception, SafelightError):
        return exception
    if isinstance(exception, RequestValidationError | WebSocketRequestValidationError):
        return _validation(request, exception)
    if isinstance(exception, HTTPException | ClientDisconnect):
        return _from_http(exception)
    if isinstance(exception, _AWAY):
        maybe_done = isinstance(exception, STATEMENT_LOST) and _changes(request)
        return errors.AnswerLost() if maybe_done else errors.Unavailable()
    if isinstance(exception, UNSTORABLE_TEXT):
        return errors.InvalidRequest("The request holds a character that cannot be stored.")
    structlog.get_logger().error("unexpected error", exc_info=exception)
    return errors.UnknownError()


def _from_http(exception: HTTPException | ClientDisconnect) -> SafelightError:
    cause = exception.__cause__
    if isinstance(cause, SafelightError):  # raised while FastAPI read the body
        return cause
    if isinstance(exception, ClientDisconnect) or isinstance(cause, ClientDisconnect):
        return errors.RequestTimeout()  # nobody hears it: for the log, where it is no error of ours
    kind = _BY_STATUS.get(exception.status_code)
    if kind is not None:
        return kind()
    if exception.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return errors.InvalidRequest(str(exception.detail))
    return errors.UnknownError()


def _changes(request: Request) -> bool:
    """A socket has no method, and changes nothing before its upgrade."""
    return request.scope.get("method", "GET") not in READING


def _validation(
    request: Request, exception: RequestValidationError | WebSocketRequestValidationError
) -> SafelightError:
    problems = exception.errors()
    in_body = any(problem["loc"][:1] == ("body",) for problem in problems)
    if in_body and not _is_json(request):
        return errors.UnsupportedMediaType()
    if any(problem["type"] == "json_invalid" for problem in problems):
        return errors.InvalidJson()
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "body"
    return errors.InvalidRequest(f"{where}: {first['msg']}.", problems=_plain(problems))


def _plain(problems: Any) -> list[dict[str, Any]]:
    return [{"where": [str(p) for p in e["loc"]], "problem": e["msg"]} for e in problems]


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _wants_page(request: Request) -> bool:
    """Browsers list text/html; programs say */* or application/json. Nobody sees what a socket is
    answered."""
    return request.scope["type"] == "http" and "text/html" in request.headers.get("accept", "")
