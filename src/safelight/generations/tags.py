"""What a tag may be."""

import unicodedata
from collections.abc import Iterable

from safelight.errors import InvalidRequest

LONGEST = 64
MOST = 100
_UNSEEN = frozenset({"Cc", "Cs"})


def clean_tag(raw: str) -> str:
    """In the Unicode form NFC; anything else that is wrong is refused."""
    if len(raw) > 4 * LONGEST:  # NFC takes quadratic time on hostile input
        raise InvalidRequest(f"tag: a tag can have {LONGEST} characters.")
    tag = unicodedata.normalize("NFC", raw)
    if not 1 <= len(tag) <= LONGEST:
        raise InvalidRequest(f"tag: a tag has 1 to {LONGEST} characters.")
    if "/" in tag or any(unicodedata.category(char) in _UNSEEN for char in tag):
        raise InvalidRequest("tag: a tag cannot contain slashes or control characters.")
    return tag


def clean_tags(raw: Iterable[str]) -> tuple[str, ...]:
    """Each once, in the order given."""
    tags = tuple(dict.fromkeys(clean_tag(one) for one in raw))
    if len(tags) > MOST:
        raise InvalidRequest(f"tags: at most {MOST} tags.")
    return tags
