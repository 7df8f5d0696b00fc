"""A small file does not unpack into something huge."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "decompression_bomb"
HUGE_BYTES: Final = 64 * 1024 * 1024
# Photographs unpack to 3 to 50 times their size; what is drawn by hand, to 200.
HUGE_RATIO: Final = 500


async def look(case: FileCase) -> list[Finding]:
    seen = case.inspection
    ratio = seen.unpacked_bytes // max(seen.size, 1)
    too_dense = seen.unpacked_bytes >= HUGE_BYTES and ratio >= HUGE_RATIO
    if seen.pixels <= case.bounds.max_pixels and not too_dense:
        return []
    message = (
        f"This file of {_size(seen.size)} unpacks to {_size(seen.unpacked_bytes)} "
        f"({seen.width} × {seen.height} pixels), which is how files are made that overload "
        "whoever opens them. Submit a smaller version."
    )
    evidence = {
        "width": seen.width,
        "height": seen.height,
        "unpackedBytes": seen.unpacked_bytes,
        "sizeBytes": seen.size,
    }
    return [Finding(NAME, Severity.BLOCK, message, evidence)]


def _size(count: int) -> str:
    """As people say it."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.0f} {unit}"
    return f"{count} bytes"


RULE: Final = Rule(NAME, RejectionCode.MALFORMED, look)
