"""The file is what it says it is."""

from typing import Final

from safelight.sandbox.protocol import FaultKind
from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "real_type"
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


async def look(case: FileCase) -> list[Finding]:
    real = case.inspection.content_type
    fault = case.inspection.fault
    if fault and fault.kind is FaultKind.NOT_AN_IMAGE:
        message = "This file is not a JPEG, PNG, WebP, GIF or AVIF image. Submit one of those."
        return [Finding(NAME, Severity.BLOCK, message)]
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
    return [Finding(NAME, Severity.BLOCK, message, {"declared": said, "actual": real})]


def _misnamed(case: FileCase, real: str) -> list[Finding]:
    """Common with pictures saved from the web, and harmless: it is published under its type."""
    extension = case.submission.source_id.rpartition(".")[2].lower()
    named = EXTENSIONS.get(extension)
    if case.submission.source_kind != "upload" or named in {None, real}:
        return []
    message = f"The name ends in .{extension}, but this is a {NAMES[real]} image."
    return [Finding(NAME, Severity.INFO, message, {"extension": extension, "actual": real})]


RULE: Final = Rule(NAME, RejectionCode.MALFORMED, look)
