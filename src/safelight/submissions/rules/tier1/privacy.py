"""What a file tells about its owner. Only mentioned: the published rendition has none of it."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "privacy"


async def look(case: FileCase) -> list[Finding]:
    traces = case.inspection.traces
    found = []
    if traces.gps:
        message = "Location removed: the file says where it was taken; what is published does not."
        found.append(Finding(NAME, Severity.INFO, message, {"gps": True}))
    if traces.exif or traces.xmp:
        message = "Metadata removed: the file carries notes of its camera or editor; what is "
        message += "published does not."
        evidence = {"camera": traces.camera} if traces.camera else {}
        found.append(Finding(NAME, Severity.INFO, message, evidence))
    return found


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
