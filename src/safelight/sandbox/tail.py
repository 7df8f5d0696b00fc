"""What stands behind the end of an image. In children only: looking through megabytes takes time
that a server does not have. Pure; each pattern passes over the bytes once."""

import re
from typing import Final

from safelight.sandbox.protocol import Tail, TailKind

# Searched for everywhere, since readers of these find them behind anything; HTML in small letters.
_ANYWHERE: Final = (
    ("a PDF document", re.compile(rb"%PDF-\d")),
    ("a RAR archive", re.compile(rb"Rar!\x1a\x07")),
    ("a 7z archive", re.compile(rb"7z\xbc\xaf\x27\x1c")),
    ("a program", re.compile(rb"\x7fELF[\x01\x02][\x01\x02]\x01")),
    ("a program", re.compile(rb"This program cannot be run in DOS")),
)
_PAGE: Final = re.compile(rb"<(!doctype\s+html|html|script|body|iframe|svg|\?php)[\s>:/]")
_AT_START: Final = (
    ("a program", re.compile(rb"MZ|#!\s*/|\xca\xfe\xba\xbe|[\xce\xcf]\xfa\xed\xfe")),
    ("a compressed archive", re.compile(rb"\x1f\x8b\x08|BZh[1-9]|\xfd7zXZ\0")),
)
_ZIP_ENTRY, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_END_WITHIN: Final = 66_000  # itself, and a comment of 64 KiB
_PADDING: Final = b"\0\xff \t\r\n"
_MAGIC_SAMPLE: Final = 64
_VIDEO_BOXES: Final = (b"ftyp", b"mpvd")
_NOTES_BOX: Final = b"sefd"


def tail_of(data: bytes, end: int | None) -> Tail | None:
    """None: there is nothing, or nobody knows where the image ends."""
    if end is None or end >= len(data):
        return None
    tail = data[end:]
    if what := _hidden(tail):
        return Tail(TailKind.HIDDEN, what)
    if what := _harmless(tail):
        return Tail(TailKind.HARMLESS, what)
    return Tail(TailKind.UNKNOWN, "unknown data")


def _hidden(tail: bytes) -> str | None:
    if _is_zip(tail):
        return "a ZIP archive"
    for what, pattern in _ANYWHERE:
        if pattern.search(tail):
            return what
    if _PAGE.search(tail.lower()):
        return "a web page or script"
    start = tail.lstrip(_PADDING)[:_MAGIC_SAMPLE]
    return next((what for what, pattern in _AT_START if pattern.match(start)), None)


def _is_zip(tail: bytes) -> bool:
    """It needs its list of entries near the end; a video can hold four unlucky bytes by chance."""
    whole = _ZIP_ENTRY in tail and _ZIP_END in tail[-_ZIP_END_WITHIN:]
    return whole or tail.startswith(_ZIP_ENTRY)


def _harmless(tail: bytes) -> str | None:
    if not tail.strip(_PADDING):
        return "padding"
    box = tail[4:8]
    if box in _VIDEO_BOXES or b"MotionPhoto_Data" in tail:
        return "the short video of a motion photo"
    if tail.startswith(b"\xff\xd8\xff"):
        return "a second picture"
    if box == _NOTES_BOX or tail.endswith(b"SEFT"):
        return "a camera's notes"
    return None
