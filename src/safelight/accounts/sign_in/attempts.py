"""How many failed sign-ins are too many: ten in a quarter of an hour, per user and per address.

An attempt counts as failed from the moment it begins until it succeeds. A success takes back that
attempt and forgets the user's failures, but never the address's other ones: whoever owns one
account could otherwise wipe the count and go on guessing at all the others.
Known gap: anyone can lock a username out for a quarter of an hour. Those already signed in stay so,
and a sign-in link opens the door meanwhile.
"""

import ipaddress
import re
from collections.abc import Sequence

WINDOW_MS = 15 * 60 * 1000
MOST_FAILURES = 10

_USERNAME = re.compile(r"[a-z0-9._-]{1,64}")


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def subjects(username: str, address: str | None) -> list[str]:
    """What an attempt counts against, sorted: locks are taken in this order."""
    counted = [f"address:{_neighbourhood(address)}"] if address else []
    if is_username(username):
        counted.append(f"user:{username}")
    return sorted(counted)


def wait_seconds(failures: Sequence[int], now_ms: int) -> int | None:
    """How long one subject has to wait, given the times of its recent failures."""
    if len(failures) < MOST_FAILURES:
        return None
    tenth_last = sorted(failures)[-MOST_FAILURES]
    return max(1, -(-(tenth_last + WINDOW_MS - now_ms) // 1000))


def _neighbourhood(address: str) -> str:
    """One IPv6 customer has a /64 to choose addresses from, so a /64 counts as one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
