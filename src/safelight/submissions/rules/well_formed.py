"""The file is a whole image of the type it says it is, and not larger than may be."""

from typing import Final

from safelight.headers.refusals import ACCEPTED, DAMAGED
from safelight.sandbox.protocol import Fault, FaultKind
from safelight.submissions.findings import FileCase, Finding, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode

_REAL_TYPE_NAME: Final = "real_type"
NAMES: Final = {
    "image/jpeg": "JPEG",
    "image/png": "PNG",
    "image/webp": "WebP",
    "image/gif": "GIF",
    "image/avif": "AVIF",
    "image/heic": "HEIC",
}
EXTENSIONS: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "jfif": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "avif": "image/avif",
    "heic": "image/heic",
    "heif": "image/heic",
}
_SAME: Final = {"image/heif": "image/heic"}  # names of one thing
_SAYS_NOTHING: Final = frozenset({"application/octet-stream", "binary/octet-stream", ""})


async def _real_type(case: FileCase) -> list[Finding]:
    """The file is what it says it is."""
    real = case.inspection.content_type
    fault = case.inspection.fault
    if fault and fault.kind is FaultKind.NOT_AN_IMAGE:
        message = f"This file is not a {ACCEPTED} image. Submit one of those."
        return [Finding(_REAL_TYPE_NAME, Severity.BLOCK, message)]
    if real is None:
        return []
    return _disguised(case, real) or _misnamed(case, real)


def _disguised(case: FileCase, real: str) -> list[Finding]:
    said = case.submission.content_type.partition(";")[0].strip().lower()
    if said in _SAYS_NOTHING or _SAME.get(said, said) == real:
        return []
    message = (
        f"The file is stored as {NAMES.get(said, said)} but really is a {NAMES[real]} image. "
        "Store it under its real type and submit it again."
    )
    return [Finding(_REAL_TYPE_NAME, Severity.BLOCK, message, {"declared": said, "actual": real})]


def _misnamed(case: FileCase, real: str) -> list[Finding]:
    """Common with pictures saved from the web, and harmless: it is published under its type."""
    extension = case.submission.source_id.rpartition(".")[2].lower()
    named = EXTENSIONS.get(extension)
    if case.submission.source_kind != "upload" or named in {None, real}:
        return []
    message = f"The name ends in .{extension}, but this is a {NAMES[real]} image."
    return [
        Finding(_REAL_TYPE_NAME, Severity.INFO, message, {"extension": extension, "actual": real})
    ]


REAL_TYPE: Final = Rule(_REAL_TYPE_NAME, RejectionCode.MALFORMED, _real_type)


_STRUCTURE_NAME: Final = "structure"
_WORDS: Final = {
    FaultKind.BROKEN: DAMAGED,
    FaultKind.UNSUPPORTED: "The file is of a form that is not supported. "
    "Export it as JPEG and submit that.",
    FaultKind.MEMORY: "Decoding this image takes more memory than is allowed. "
    "Submit a smaller version.",
    FaultKind.CPU: "Decoding this image takes too long. Submit a smaller or simpler version.",
    FaultKind.CRASH: "This file makes image decoders fail. Save it again with an image editor and "
    "submit that.",
    FaultKind.ANSWER: "This image is too large to be published. Submit a smaller version.",
}


async def _structure(case: FileCase) -> list[Finding]:
    """It can be decoded from its beginning to its end, by a child with limits."""
    fault = case.inspection.fault
    return [broken(fault)] if fault and fault.kind in _WORDS else []


def broken(fault: Fault) -> Finding:
    evidence = {"fault": fault.kind, **({"detail": fault.detail} if fault.detail else {})}
    return Finding(_STRUCTURE_NAME, Severity.BLOCK, _WORDS[fault.kind], evidence)


STRUCTURE: Final = Rule(_STRUCTURE_NAME, RejectionCode.MALFORMED, _structure)


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
