"""Requests for approval as the API answers them."""

from typing_extensions import TypedDict

from safelight.approvals.lifecycle import ApprovalStatus
from safelight.http.described import SubjectAnswer


class ApprovalAnswer(TypedDict):
    id: str
    status: ApprovalStatus
    title: str
    description: str
    subject: SubjectAnswer | None
    requestedBy: str
    createdAt: str
    expiresAt: str
    decidedBy: str | None
    decidedAt: str | None
    reason: str | None
