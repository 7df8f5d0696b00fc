"""What rules find, and what follows from it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from safelight.submissions.lifecycle import RejectionCode


class Severity(StrEnum):
    BLOCK = "block"  # it is rejected
    REVIEW = "review"  # a person is asked
    INFO = "info"  # the submitter is told


@dataclass(frozen=True, slots=True)
class Finding:
    """`message` is for the submitter: what is so, and what they can do about it."""

    rule: str
    severity: Severity
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": self.evidence,
        }

    @classmethod
    def load(cls, value: dict[str, Any]) -> "Finding":
        return cls(value["rule"], Severity(value["severity"]), value["message"], value["evidence"])


@dataclass(frozen=True, slots=True)
class Rejection:
    code: RejectionCode
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing speaks against it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to look at these."""

    doubts: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    rejection: Rejection


def judge(findings: Sequence[Finding], codes: dict[str, RejectionCode]) -> Pass | Ask | Fail:
    """`codes` says with which code each rule rejects. The first that blocks gives the reason."""
    for finding in findings:
        if finding.severity is Severity.BLOCK:
            code = codes.get(finding.rule, RejectionCode.POLICY)
            return Fail(Rejection(code, finding.message))
    doubts = tuple(finding for finding in findings if finding.severity is Severity.REVIEW)
    return Ask(doubts) if doubts else Pass()
