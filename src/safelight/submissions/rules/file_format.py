"""The file is the image it says it is, and can be decoded from its beginning to its end."""

from typing import Final

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
}
EXTENSIONS: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "jfif": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "avif": "image/avif",
}
_SAYS_NOTHING: Final = frozenset({"application/octet-stream", "binary/octet-stream", ""})


async def _real_type(case: FileCase) -> list[Finding]:
    """The file is what it says it is."""
    real = case.inspection.content_type
    fault = case.inspection.fault
    if fault and fault.kind is FaultKind.NOT_AN_IMAGE:
        message = "This file is not a JPEG, PNG, WebP, GIF or AVIF image. Submit one of those."
        return [Finding(_REAL_TYPE_NAME, Severity.BLOCK, message)]
    if real is None:
        return []
    return _disguised(case, real) or _misnamed(case, real)


def _disguised(case: FileCase, real: str) -> list[Finding]:
    said = case.submission.content_type.partition(";")[0].strip().lower()
    if said in _SAYS_NOTHING or said == real:
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
    FaultKind.BROKEN: "The file is damaged or cut short: it cannot be decoded to its end. "
    "Save it again from the original and submit that.",
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
