"""The picture is not larger than may be."""

from typing import Final

from safelight.submissions.findings import FileCase, Finding, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode

_BOMB_NAME: Final = "decompression_bomb"
HUGE_BYTES: Final = 64 * 1024 * 1024
# Photographs unpack to 3 to 50 times their size; what is drawn by hand, to 200.
HUGE_RATIO: Final = 500


async def _bomb(case: FileCase) -> list[Finding]:
    """A small file does not unpack into something huge."""
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
    return [Finding(_BOMB_NAME, Severity.BLOCK, message, evidence)]


def _size(count: int) -> str:
    """As people say it."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.0f} {unit}"
    return f"{count} bytes"


BOMB: Final = Rule(_BOMB_NAME, RejectionCode.MALFORMED, _bomb)


_LIMITS_NAME: Final = "limits"
LONGEST_SIDE: Final = 16_383  # WebP has no more


async def _limits(case: FileCase) -> list[Finding]:
    """Not too many frames, not too wide, not too high."""
    return [*_sides(case), *_frames(case)]


def _sides(case: FileCase) -> list[Finding]:
    seen = case.inspection
    if max(seen.width, seen.height) <= LONGEST_SIDE:
        return []
    message = (
        f"The image is {seen.width} × {seen.height} pixels; neither side may be longer than "
        f"{LONGEST_SIDE}. Submit a smaller version."
    )
    evidence = {"width": seen.width, "height": seen.height}
    return [Finding(_LIMITS_NAME, Severity.BLOCK, message, evidence)]


def _frames(case: FileCase) -> list[Finding]:
    seen, bounds = case.inspection, case.bounds
    total = seen.frames * seen.pixels
    if seen.frames > bounds.max_frames:
        message = f"The animation has {seen.frames} frames; at most {bounds.max_frames} may be."
    elif seen.frames > 1 and total > bounds.max_total_pixels:
        message = f"The animation has {seen.frames} frames of {seen.width} × {seen.height} pixels."
    else:
        return []
    message += " Only its first frame would be published: submit that as a picture."
    evidence = {"frames": seen.frames, "maxFrames": bounds.max_frames, "totalPixels": total}
    return [Finding(_LIMITS_NAME, Severity.BLOCK, message, evidence)]


LIMITS: Final = Rule(_LIMITS_NAME, RejectionCode.MALFORMED, _limits)
