"""Submissions, policies and the blocklist as the API answers them."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from safelight.submissions.findings import Severity
from safelight.submissions.lifecycle import SubmissionState


class ReceivedAnswer(TypedDict):
    id: str
    state: SubmissionState


class FindingAnswer(TypedDict):
    rule: str
    severity: Severity
    message: str
    evidence: dict[str, Any]


class RejectionAnswer(TypedDict):
    code: str
    message: str


class StalenessAnswer(TypedDict):
    stale: Literal[True]
    staleSince: str
    staleStage: SubmissionState
    nextAttemptAt: str | None
    message: str


class SubmissionAnswer(TypedDict):
    id: str
    state: SubmissionState
    source: dict[str, str]
    title: str | None
    findings: list[FindingAnswer]
    approvalId: str | None
    createdAt: str
    updatedAt: str
    rejection: NotRequired[RejectionAnswer]
    staleness: NotRequired[StalenessAnswer]


class OwnScores(TypedDict):
    safetyBlock: float | None
    safetyReview: float | None


class PolicyAnswer(TypedDict):
    safetyBlock: float
    safetyReview: float
    blockedLabels: list[str]
    own: OwnScores


class BlockedAnswer(TypedDict):
    id: str
    note: str | None
    checksum: str | None
    fingerprint: str | None
    fingerprints: list[str]
    createdBy: str
    createdAt: str
