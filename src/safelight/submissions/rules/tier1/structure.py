"""The file can be decoded from its beginning to its end, by a child with limits."""

from typing import Final

from safelight.sandbox.protocol import Fault, FaultKind
from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "structure"
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


async def look(case: FileCase) -> list[Finding]:
    fault = case.inspection.fault
    return [broken(fault)] if fault and fault.kind in _WORDS else []


def broken(fault: Fault) -> Finding:
    evidence = {"fault": fault.kind, **({"detail": fault.detail} if fault.detail else {})}
    return Finding(NAME, Severity.BLOCK, _WORDS[fault.kind], evidence)


RULE: Final = Rule(NAME, RejectionCode.MALFORMED, look)
