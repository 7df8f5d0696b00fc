"""What a file carries besides its picture.

A file that is an image to one program and an archive, a page or a program to another is blocked.
What cameras put behind the image (a short video, a second picture, padding), and what a file tells
about its owner, is only mentioned: it is not part of what is published.
"""

from typing import Final, assert_never

from safelight.sandbox.protocol import Tail, TailKind
from safelight.submissions.findings import FileCase, Finding, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode

_TRAILING_DATA_NAME: Final = "trailing_data"


async def _trailing_data(case: FileCase) -> list[Finding]:
    """Nothing hides behind the image's end."""
    seen = case.inspection
    if seen.tail is None or seen.end is None:
        return []
    count = seen.size - seen.end
    severity, message = judge(seen.tail, count)
    evidence = {"bytes": count, "at": seen.end, "what": seen.tail.what}
    return [Finding(_TRAILING_DATA_NAME, severity, message, evidence)]


def judge(tail: Tail, count: int) -> tuple[Severity, str]:
    match tail.kind:
        case TailKind.HIDDEN:
            message = (
                f"The file contains {tail.what} behind the image. Save the picture on its own with "
                "an image editor and submit that."
            )
            return Severity.BLOCK, message
        case TailKind.HARMLESS:
            message = f"The file contains {tail.what} behind the image, which is not published."
            return Severity.INFO, message
        case TailKind.UNKNOWN:
            message = f"The file contains {count} bytes of unknown data behind the image; a person "
            return Severity.REVIEW, message + "will look at it."
        case _:
            assert_never(tail.kind)


TRAILING_DATA: Final = Rule(_TRAILING_DATA_NAME, RejectionCode.MALFORMED, _trailing_data)


_PRIVACY_NAME: Final = "privacy"


async def _privacy(case: FileCase) -> list[Finding]:
    """What a file tells about its owner; the published rendition has none of it."""
    traces = case.inspection.traces
    found = []
    if traces.gps:
        message = "Location removed: the file says where it was taken; what is published does not."
        found.append(Finding(_PRIVACY_NAME, Severity.INFO, message, {"gps": True}))
    if traces.exif or traces.xmp:
        message = "Metadata removed: the file carries notes of its camera or editor; what is "
        message += "published does not."
        evidence = {"camera": traces.camera} if traces.camera else {}
        found.append(Finding(_PRIVACY_NAME, Severity.INFO, message, evidence))
    return found


PRIVACY: Final = Rule(_PRIVACY_NAME, RejectionCode.POLICY, _privacy)
