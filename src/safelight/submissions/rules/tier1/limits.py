"""Not too many frames, not too wide, not too high."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "limits"
LONGEST_SIDE: Final = 16_383  # WebP has no more


async def look(case: FileCase) -> list[Finding]:
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
    return [Finding(NAME, Severity.BLOCK, message, evidence)]


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
    return [Finding(NAME, Severity.BLOCK, message, evidence)]


RULE: Final = Rule(NAME, RejectionCode.MALFORMED, look)
