"""Limits as operators type them: numbers, and bytes with a unit. Pure."""

import re
from decimal import Decimal
from typing import Final

from safelight.errors import InvalidRequest
from safelight.quotas.lifecycle import Meter, Quota

MOST: Final = 2**60
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_BYTES: Final = re.compile(r"([\d\s,_]*\.?\d+)\s*(?:bytes?|b|([kmgtp])i?b?)?", re.IGNORECASE)
_POWERS: Final = {unit[0].lower(): power for power, unit in enumerate(_UNITS) if power}
_KIB: Final = 1024


def typed(quota: Quota) -> str:
    """As it stands in the form; nothing where the server's limit holds."""
    if not quota.own:
        return ""
    amount = quota.most or 0
    return exact_bytes(amount) if quota.meter is Meter.STORED_BYTES else str(amount)


def exact_bytes(amount: int) -> str:
    """In the largest unit that makes a whole number of it."""
    power = 0
    while amount and amount % _KIB == 0 and power < len(_UNITS) - 1:
        amount, power = amount // _KIB, power + 1
    return f"{amount} {_UNITS[power]}" if amount else "0"


def limit_in(meter: Meter, text: str) -> int | None:
    """None: the server's. Raises what the form then says."""
    text = text.strip()
    if not text:
        return None
    amount = _bytes(text) if meter is Meter.STORED_BYTES else _number(text)
    if amount is None or amount > MOST:
        example = "20 GiB" if meter is Meter.STORED_BYTES else "500"
        raise InvalidRequest(f"{text[:40]!r} is no limit. Write it as {example}, or 0 for none.")
    return amount


def _number(text: str) -> int | None:
    digits = re.sub(r"[\s,_]", "", text)
    return int(digits) if re.fullmatch(r"[0-9]{1,19}", digits) else None


def _bytes(text: str) -> int | None:
    found = _BYTES.fullmatch(text) if text.isascii() and len(text) < 40 else None  # noqa: PLR2004
    if found is None:
        return None
    digits = re.sub(r"[\s,_]", "", found[1])
    return int(Decimal(digits) * _KIB ** _POWERS.get((found[2] or "").lower(), 0))
