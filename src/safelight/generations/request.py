"""What a client asks for, checked and written down the same way whatever its spelling. Pure."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from safelight.errors import Conflict, InvalidRequest
from safelight.generations.lifecycle import MediaKind

MOST = 20
LONGEST_PROMPT = 20_000
LARGEST_SEED = 2**63 - MOST - 1
LONGEST_TAG = 64
MOST_TAGS = 100
_DEEPEST = 32
_LARGEST = 10**100
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_UNSEEN = frozenset({"Cc", "Cs"})


class IdempotencyKeyReused(Conflict):
    """This Idempotency-Key was used for a different request. Use a new key for a new request."""

    code = "IDEMPOTENCY_KEY_REUSED"


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    model: str
    input: Mapping[str, Any]
    count: int
    tags: tuple[str, ...]
    provider: str | None
    kind: MediaKind

    @classmethod
    def of(
        cls,
        model: str,
        wanted: Mapping[str, Any],
        count: int,
        tags: list[str],
        provider: str | None,
        kind: MediaKind,
    ) -> "GenerationRequest":
        _check_storable("model", model)
        _check_storable("input", wanted)
        _check_storable("provider", provider)
        _check_input(wanted)
        return cls(model, wanted, count, clean_tags(tags), provider, kind)

    @property
    def digest(self) -> str:
        """Equal for bodies that ask for the same."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def check_key(key: str | None) -> str | None:
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest("Idempotency-Key: use 1 to 255 printable ASCII characters, no spaces.")
    return key


def clean_tag(raw: str) -> str:
    """In the Unicode form NFC, without white space around it; anything else that is wrong is
    refused."""
    if len(raw) > 4 * LONGEST_TAG:  # NFC takes quadratic time on hostile input
        raise InvalidRequest(f"tag: a tag can have {LONGEST_TAG} characters.")
    tag = unicodedata.normalize("NFC", raw)
    if "/" in tag or any(unicodedata.category(char) in _UNSEEN for char in tag):
        raise InvalidRequest("tag: a tag cannot contain slashes or control characters.")
    tag = tag.strip()
    if not 1 <= len(tag) <= LONGEST_TAG:
        raise InvalidRequest(f"tag: a tag has 1 to {LONGEST_TAG} characters.")
    return tag


def clean_tags(raw: Iterable[str]) -> tuple[str, ...]:
    """Each once, in the order given."""
    tags = tuple(dict.fromkeys(clean_tag(one) for one in raw))
    if len(tags) > MOST_TAGS:
        raise InvalidRequest(f"tags: at most {MOST_TAGS} tags.")
    return tags


def _check_input(wanted: Mapping[str, Any]) -> None:
    prompt, seed = wanted.get("prompt"), wanted.get("seed")
    if prompt is not None and (not isinstance(prompt, str) or len(prompt) > LONGEST_PROMPT):
        raise InvalidRequest(f"input.prompt: a text of at most {LONGEST_PROMPT} characters.")
    if seed is not None and (type(seed) is not int or not 0 <= seed <= LARGEST_SEED):
        raise InvalidRequest(f"input.seed: a whole number from 0 to {LARGEST_SEED}.")


def _check_storable(where: str, value: object, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise InvalidRequest(f"{where}: nested deeper than {_DEEPEST} levels.")
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise InvalidRequest(f"{where}: holds a character that cannot be stored.")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _check_storable(where, name, depth)
            _check_storable(f"{where}.{name}", inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_storable(where, inner, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{where}: not a number.")
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise InvalidRequest(f"{where}: too large a number.")
