"""What the template of the approvals page sees."""

from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import urlencode

from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.web.publication.requests import ShownRequest, ShownThresholds
from safelight.web.rendering import Context

LONGEST_REASON = 1000
COMMON: Final = (
    "It is published already.",
    "The picture is not good enough.",
    "It shows somebody who has not agreed.",
    "It is not for everybody.",
    "It is not clear whose picture it is.",
)


@dataclass(frozen=True, slots=True)
class AskedWorkflow:
    """What the address, or a form that was refused, says."""

    status: ApprovalStatus = ApprovalStatus.PENDING
    as_list: bool = False
    wanted: str | None = None  # a request to begin with
    cursor: str | None = None
    problem: str | None = None
    settled: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkflowPage(Context):
    template: ClassVar[str] = "workflow.html"
    title: str = "Approvals"
    organization: str
    asked: AskedWorkflow
    may_decide: bool
    may_block: bool
    total: int  # of those that wait, up to a hundred
    requests: list[ShownRequest]
    bounds: ShownThresholds
    gone: Approval | None  # was asked for, and is decided
    more: str | None
    common: ClassVar[tuple[str, ...]] = COMMON
    longest_reason: ClassVar[int] = LONGEST_REASON

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/workflow"

    @property
    def address(self) -> str:
        """Of this very view."""
        given = {
            "status": None if self.is_pending else self.asked.status,
            "view": "list" if self.asked.as_list else None,
            "request": self.asked.wanted,
        }
        query = urlencode({name: value for name, value in given.items() if value})
        return self.here + (f"?{query}" if query else "")

    @property
    def is_pending(self) -> bool:
        return self.asked.status is ApprovalStatus.PENDING

    @property
    def shown_total(self) -> str:
        return "99+" if self.total > 99 else str(self.total)  # noqa: PLR2004

    @property
    def tabs(self) -> list[tuple[str, str, bool, str | None]]:
        return [
            (
                status.word,
                self.here + ("" if status is ApprovalStatus.PENDING else f"?status={status}"),
                status is self.asked.status,
                self.shown_total if status is ApprovalStatus.PENDING else None,
            )
            for status in ApprovalStatus
        ]
