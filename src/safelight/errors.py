"""Every error a caller can meet. The class says what happens next: code for machines, status for
HTTP, and its docstring is the message when none is given."""

from typing import Any, ClassVar


class SafelightError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "UNKNOWN_ERROR"
    status: ClassVar[int] = 500
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or self.default_message()
        self.details = details  # shown to clients in development mode only
        super().__init__(self.message)

    @classmethod
    def default_message(cls) -> str:
        return " ".join((cls.__doc__ or cls.code).split())


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


class FileTooLarge(SafelightError):
    """The body is larger than this address accepts."""

    code = "FILE_TOO_LARGE"
    status = 413


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


class AnswerLost(Unavailable):
    """The database went away before it answered. What you asked for may have been done; look before
    you send it again."""
