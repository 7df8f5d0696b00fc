"""What a log line shows of an address: everything but the secrets that people and programs put into
it, however they are written. Pure."""

import re
from typing import Final
from urllib.parse import quote, unquote_plus

_SECRET: Final = re.compile(
    r"(?<![\w.\-\[])(?:[\w.\-\[]*(?:token|secret|password)|code|key|signature)\]?\s*=",
    re.IGNORECASE,
)
_READABLE: Final = "/?;#=:,@!$'()*+-._~[]"
_LAYERS: Final = 6  # an address within an address within …; nobody honest needs more


def redact(text: str) -> str:
    """Parameter by parameter: as it came, or cut where a secret begins. Where nothing is equal to
    anything, however it is written, there is none."""
    if "=" not in text and "%" not in text:
        return text
    return "&".join(map(_without_secret, text.split("&")))


def _without_secret(written: str) -> str:
    meant = _meant(written)
    if meant is None:
        return "…"
    found = _SECRET.search(meant)
    return written if found is None else quote(meant[: found.end()], safe=_READABLE) + "…"


def _meant(written: str) -> str | None:
    """With every layer of encoding taken off; None if there are too many."""
    for _ in range(_LAYERS):
        plain = unquote_plus(written)
        if plain == written:
            return plain
        written = plain
    return None
