"""What a file carries besides its picture.

A file that is an image to one program and an archive, a page or a program to another is blocked.
What cameras put behind the image (a short video, a second picture, padding), and what a file tells
about its owner, is only mentioned: it is not part of what is published.
"""

import re
from typing import Final

from safelight.submissions.findings import FileCase, Finding, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode

_TRAILING_DATA_NAME: Final = "trailing_data"

_ANYWHERE: Final = (
    ("a PDF document", re.compile(rb"%PDF-\d")),
    ("a RAR archive", re.compile(rb"Rar!\x1a\x07")),
    ("a 7z archive", re.compile(rb"7z\xbc\xaf\x27\x1c")),
    (
        "a web page or script",
        re.compile(rb"<(!doctype\s+html|html|script|body|iframe|svg|\?php)[\s>:/]", re.IGNORECASE),
    ),
    (
        "a program",
        re.compile(rb"\x7fELF[\x01\x02][\x01\x02]\x01|This program cannot be run in DOS"),
    ),
)
_AT_START: Final = (
    ("a program", re.compile(rb"MZ|#!\s*/|\xca\xfe\xba\xbe|[\xce\xcf]\xfa\xed\xfe")),
    ("a compressed archive", re.compile(rb"\x1f\x8b\x08|BZh[1-9]|\xfd7zXZ\0")),
)
_ZIP_ENTRY, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_END_WITHIN: Final = 66_000  # itself, and a comment of 64 KiB
_PADDING: Final = frozenset(b"\0\xff \t\r\n")
_MAGIC_SAMPLE: Final = 64


async def _trailing_data(case: FileCase) -> list[Finding]:
    """Nothing hides behind the image's end."""
    end = case.inspection.end
    if end is None or end >= len(case.data):
        return []
    severity, message, what = judge(case.data[end:])
    evidence = {"bytes": len(case.data) - end, "at": end, "what": what}
    return [Finding(_TRAILING_DATA_NAME, severity, message, evidence)]


def judge(tail: bytes) -> tuple[Severity, str, str]:
    """Severity, words for the submitter, and what it is in one word or a few."""
    if what := hidden(tail):
        message = (
            f"The file contains {what} behind the image. Save the picture on its own with an image "
            "editor and submit that."
        )
        return Severity.BLOCK, message, what
    if what := harmless(tail):
        message = f"The file contains {what} behind the image, which is not published."
        return Severity.INFO, message, what
    message = (
        f"The file contains {len(tail)} bytes of unknown data behind the image; a person will look "
        "at it."
    )
    return Severity.REVIEW, message, "unknown data"


def hidden(tail: bytes) -> str | None:
    """Searched for everywhere: readers of these find them behind anything."""
    if _is_zip(tail):
        return "a ZIP archive"
    for what, pattern in _ANYWHERE:
        if pattern.search(tail):
            return what
    start = tail.lstrip(bytes(_PADDING))[:_MAGIC_SAMPLE]
    return next((what for what, pattern in _AT_START if pattern.match(start)), None)


def _is_zip(tail: bytes) -> bool:
    """It needs its list of entries near the end; a video can hold four unlucky bytes by chance."""
    whole = _ZIP_ENTRY in tail and _ZIP_END in tail[-_ZIP_END_WITHIN:]
    return whole or tail.startswith(_ZIP_ENTRY)


def harmless(tail: bytes) -> str | None:
    if _PADDING.issuperset(tail):
        return "padding"
    if tail[4:8] == b"ftyp" or b"MotionPhoto_Data" in tail:
        return "the short video of a motion photo"
    if tail.startswith(b"\xff\xd8\xff"):
        return "a second picture"
    if tail.endswith(b"SEFT"):
        return "a camera's notes"
    return None


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
