"""Which kind of trouble a failed run was. Pure: an error and its causes in, one of five words out.

The innermost error that a pattern knows decides, since what is wrapped around it mostly says only
where it was met. Errors are known by the names of their classes, by their code, and last by their
words, so that nothing here depends on the libraries that raise them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from safelight.errors import public_words


class FailureClass(StrEnum):
    SCAN_TIMEOUT = "SCAN_TIMEOUT"
    MODEL_ERROR = "MODEL_ERROR"
    STORAGE_ERROR = "STORAGE_ERROR"
    NETWORK_ERROR = "NETWORK_ERROR"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Pattern:
    found: FailureClass
    names: frozenset[str]
    codes: frozenset[str]
    words: re.Pattern[str]

    def knows(self, error: BaseException) -> bool:
        names = {kind.__name__ for kind in type(error).__mro__}
        return bool(names & self.names) or getattr(error, "code", None) in self.codes

    def reads(self, error: BaseException) -> bool:
        return bool(self.words.search(str(error)))


def _pattern(found: FailureClass, names: str, codes: str, words: str) -> Pattern:
    expression = re.compile(words, re.IGNORECASE)
    return Pattern(found, frozenset(names.split()), frozenset(codes.split()), expression)


PATTERNS: Final = (
    _pattern(
        FailureClass.SCAN_TIMEOUT,
        "TimeoutError TimeoutException CancelledError",
        "SANDBOX_TIMEOUT SCAN_TIMEOUT",
        r"\btimed? ?out\b|\btime limit\b|\bdeadline\b",
    ),
    _pattern(
        FailureClass.MODEL_ERROR,
        "ModelError OnnxRuntimeException Fail InvalidArgument RuntimeException",
        "MODEL_ERROR UNDECODABLE",
        r"\bonnx|\binference\b|\bmodel\b",
    ),
    _pattern(
        FailureClass.NETWORK_ERROR,
        "ConnectionError TransportError NetworkError gaierror PostgresConnectionError",
        "NETWORK_ERROR",
        r"\bconnection (refused|reset|lost|closed)\b|\bnetwork\b|\bunreachable\b|\bdns\b",
    ),
    _pattern(
        FailureClass.STORAGE_ERROR,
        "StoreUnavailable NoSuchObject DamagedObject ChecksumMismatch Unavailable PostgresError "
        "InterfaceError BaseError OSError",
        "STORAGE_ERROR UNAVAILABLE DAMAGED CHECKSUM_ERROR DATABASE_ERROR",
        r"\bobject store\b|\bstorage\b|\bno space left\b|\bbucket\b|\bdatabase\b",
    ),
)


def classify(error: BaseException) -> FailureClass:
    for cause in reversed(list(chain(error))):
        for ask in (Pattern.knows, Pattern.reads):
            for pattern in PATTERNS:
                if ask(pattern, cause):
                    return pattern.found
    return FailureClass.UNKNOWN


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then its causes, each once; of a group, its members too."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        hidden = current.__suppress_context__
        behind = current.__cause__ or (None if hidden else current.__context__)
        if behind is not None:
            waiting.append(behind)


def in_words(error: BaseException) -> str:
    """One line for the record, of what every database can keep and everybody may read."""
    line = (public_words(error).strip() or type(error).__name__).splitlines()[0][:500]
    return "".join(char for char in line if char.isprintable())
