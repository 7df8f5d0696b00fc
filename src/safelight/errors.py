"""Every error a caller can meet. The class says what happens next: code for machines, status for
HTTP, and its docstring is the message when none is given."""

import errno
import os
from typing import Any, ClassVar

_OUR_FAULT = 500  # and above


class SafelightError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "UNKNOWN_ERROR"
    status: ClassVar[int] = 500
    headers: ClassVar[dict[str, str]] = {}
    says_it_all: ClassVar[bool] = False
    """Of one that is our fault: whether its messages are for everybody all the same, since whoever
    writes them names no host and no path."""

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or self.default_message()
        self.details = details  # shown to clients in development mode only
        super().__init__(self.message)

    @classmethod
    def default_message(cls) -> str:
        return " ".join((cls.__doc__ or cls.code).split())


def public_words(error: BaseException) -> str:
    """What those may read whose work it happened in. What is wrong on our side may name hosts,
    buckets, keys and paths, as may what libraries and the system say: that is for the log."""
    if isinstance(error, SafelightError):
        told = error.status < _OUR_FAULT or error.says_it_all
        return error.message if told else error.default_message()
    if isinstance(error, OSError):
        number = error.errno or 0
        return f"{os.strerror(number)}." if number in errno.errorcode else type(error).__name__
    ours = type(error).__module__.split(".")[0] in {"builtins", __package__}
    return full_words(error) if ours else type(error).__name__


def full_words(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        return type(error).__name__


class UnknownError(SafelightError):
    """Something went wrong on our side. Nothing was accepted; please try again."""


class ConfigurationError(SafelightError):
    """A setting has a value Safelight cannot start with."""

    code = "CONFIGURATION_ERROR"


class Unauthenticated(SafelightError):
    """Sign in, or send an API token as `Authorization: Bearer slt_…`."""

    code = "UNAUTHENTICATED"
    status = 401
    headers: ClassVar[dict[str, str]] = {"www-authenticate": "Bearer"}


class Forbidden(SafelightError):
    """Your role in this organization does not allow this."""

    code = "FORBIDDEN"
    status = 403


class NotFound(SafelightError):
    """There is nothing here, or it is not yours to see."""

    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(SafelightError):
    """This address does not take that method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class Conflict(SafelightError):
    """The request does not fit the present state."""

    code = "CONFLICT"
    status = 409


class NameTaken(Conflict):
    """That name is taken."""

    code = "NAME_TAKEN"


class NotReady(Conflict):
    """Not ready yet; try again in a moment."""

    code = "NOT_READY"


class RequestTimeout(SafelightError):
    """The request did not arrive in time. Send it again; a body may be slow, but not silent."""

    code = "REQUEST_TIMEOUT"
    status = 408


class FileTooLarge(SafelightError):
    """The body is larger than this address accepts."""

    code = "FILE_TOO_LARGE"
    status = 413


class UriTooLong(SafelightError):
    """The address is too long. Send less in it."""

    code = "URI_TOO_LONG"
    status = 414


class HeaderTooLarge(SafelightError):
    """The header is too large or has too many fields. Clear this site's cookies, or send less."""

    code = "HEADER_TOO_LARGE"
    status = 431


class MalformedRequest(SafelightError):
    """This is not HTTP as we understand it. Send HTTP/1.1, one request at a time."""

    code = "MALFORMED_REQUEST"
    status = 400


class InvalidJson(SafelightError):
    """The body is not JSON."""

    code = "INVALID_JSON"
    status = 400


class UnsupportedMediaType(SafelightError):
    """Send the body as application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class RangeNotSatisfiable(SafelightError):
    """The requested range lies outside the content."""

    code = "RANGE_NOT_SATISFIABLE"
    status = 416


class InvalidRequest(SafelightError):
    """The request has a value that cannot be used."""

    code = "INVALID_REQUEST"
    status = 422


class RateLimited(SafelightError):
    """Too many attempts; wait and try again."""

    code = "RATE_LIMITED"
    status = 429

    def __init__(
        self, message: str | None = None, *, retry_after: int = 60, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Unavailable(SafelightError):
    """The database cannot be reached right now; nothing was changed. Try again in a moment."""

    code = "UNAVAILABLE"
    status = 503


class Crowded(Unavailable):
    """Too many connections are open, here or from your address. Close some, or wait a moment."""

    headers: ClassVar[dict[str, str]] = {"retry-after": "5"}


class Overwritten(Unavailable):
    """It is being overwritten again and again. Try again in a moment."""


class AnswerLost(Unavailable):
    """The database went away before it answered. What you asked for may have been done; look before
    you send it again."""
