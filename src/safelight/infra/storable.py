"""What a JSON column takes: flat records of ours, and untrusted JSON, also as text. Pure."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 24
_LARGEST: Final = 10**100
_LONGEST_READ: Final = 2000
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def columns(record: Any) -> dict[str, Any]:
    """The fields of a record, as jsonb_populate_record takes them; none is copied."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def canonical(value: object) -> str | None:
    """The same text for equal content, in ASCII; None for what cannot be written down."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def readable(value: object) -> str:
    """For people: as much as they read, and nothing that a terminal or a page would act upon."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:_LONGEST_READ])
    return plain if len(text) <= _LONGEST_READ else f"{plain}…"


def storable(value: object, depth: int = 0) -> object:
    """A copy without what PostgreSQL refuses: NUL, lone surrogates, NaN, endless nesting."""
    if isinstance(value, str):
        return _clean(value)
    if depth == _DEEPEST and isinstance(value, Mapping | list):
        return "…"
    if isinstance(value, Mapping):
        return {_name(key): storable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [storable(inner, depth + 1) for inner in value]
    return value if value is None or _is_plain_number(value) else f"({type(value).__name__})"


def _is_plain_number(value: object) -> bool:
    if isinstance(value, int):
        return -_LARGEST < value < _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def _name(key: object) -> str:
    return _clean(key) if isinstance(key, str) else f"({type(key).__name__})"


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)
