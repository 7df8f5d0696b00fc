"""Keyset pages: `?limit=` and an opaque, signed `?cursor=`; a bad one is refused, never guessed."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query
from itsdangerous import BadSignature, URLSafeSerializer

from safelight.errors import InvalidRequest
from safelight.http.frame import provided

Limit = Annotated[int, Query(ge=1, le=200, description="How many items, 1 to 200.")]
LARGEST = 2**63 - 1  # what a column holds
Cursor = Annotated[str | None, Query(description="`nextCursor` of the page before.")]
DEFAULT_LIMIT = 50

T = TypeVar("T")


class Cursors:
    """Signed, so that a cursor of one list cannot be bent into a query on another."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def make(self, purpose: str, key: Sequence[Any]) -> str:
        return str(URLSafeSerializer(self._secret, salt=purpose).dumps(list(key)))

    def read(self, purpose: str, cursor: str | None) -> list[Any] | None:
        if cursor is None:
            return None
        try:
            key = URLSafeSerializer(self._secret, salt=purpose).loads(cursor)
        except BadSignature as error:
            raise InvalidRequest(
                "That cursor is not one of this list's. Start again without a cursor."
            ) from error
        return list(key)


CursorsDep = Annotated[Cursors, provided(Cursors)]


async def _no_extra_cursor(
    limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> tuple[int, str | None]:
    return limit, cursor


PageRequest = Annotated[tuple[int, str | None], Depends(_no_extra_cursor)]


def page(
    rows: Sequence[T], limit: int, show: Callable[[T], dict[str, Any]], cursor: Callable[[T], str]
) -> dict[str, Any]:
    """Shapes `limit + 1` fetched rows into an answer; the extra row only tells there is more."""
    shown = rows[:limit]
    more = len(rows) > limit
    return {
        "items": [show(row) for row in shown],
        "nextCursor": cursor(shown[-1]) if more else None,
    }
