"""Every refusal that a caller may meet, by its code. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from safelight.errors import SafelightError

_OURS = "UNKNOWN_ERROR"
_INNER = 500  # stands in the log; who called is told UNKNOWN_ERROR, or sees it in a record


@dataclass(frozen=True, slots=True)
class ErrorCode:
    code: str
    statuses: tuple[int, ...]
    words: tuple[str, ...]


@cache
def error_codes() -> list[ErrorCode]:
    """Of the errors that this process has loaded: whatever a route of it can raise is."""
    found: dict[str, set[tuple[int, str]]] = {}
    kinds: set[type[SafelightError]] = {SafelightError, *_below(SafelightError)}
    for kind in kinds:
        is_ours = kind.__module__.startswith("safelight.")
        if is_ours and (kind.status != _INNER or kind.code == _OURS):
            found.setdefault(kind.code, set()).add((kind.status, kind.default_message()))
    return [
        ErrorCode(
            code,
            tuple(sorted({status for status, _ in told})),
            tuple(sorted({words for _, words in told})),
        )
        for code, told in sorted(found.items())
    ]


@cache
def known_codes() -> frozenset[str]:
    return frozenset(one.code for one in error_codes())


def _below(kind: type[SafelightError]) -> Iterator[type[SafelightError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
