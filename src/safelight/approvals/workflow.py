"""Asking a person: request, then one decision, by somebody who may or by the time limit.

Guarantees
- An approval is decided once. Under its row's lock the first decision counts; the same one again
  changes nothing, the other is `AlreadyDecided`, however close together they come.
- Whoever it is about learns of the decision in the same unit of work (`Concern`), so neither exists
  without the other. Locks are taken in one order: the subject's row, then the approval's.
- A pending one outlives restarts and expires to rejected, at the latest a minute after its time;
  a decision that comes after its time finds it expired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, assert_never

from safelight.approvals import repo
from safelight.approvals.decide import EXPIRED, DecideNow, Keep, Refuse, decide, decide_expiry
from safelight.approvals.lifecycle import MACHINE, Approval, ApprovalStatus, Subject
from safelight.errors import Conflict, NotFound
from safelight.infra.activity import Unit, Units
from safelight.infra.history import SYSTEM, Line
from safelight.infra.injected import Ids

_BATCH = 100


class UnknownApproval(NotFound):
    """There is no such approval request."""


class AlreadyDecided(Conflict):
    """This request was already decided the other way."""

    code = "ALREADY_DECIDED"


class Concern(Protocol):
    """What an approval can be about, by the type of its subject. Both are called inside the
    deciding unit of work and must be quick."""

    async def lock(self, unit: Unit, subject_id: str) -> None: ...

    async def on_decided(self, unit: Unit, approval: Approval, actor: dict[str, str]) -> None:
        """Acts upon it, and tells that beside the decision."""


@dataclass(frozen=True, slots=True)
class Question:
    organization: str
    title: str
    description: str
    requested_by: dict[str, str]
    subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class Approvals:
    units: Units
    ids: Ids
    expire_after_ms: int
    concerns: Mapping[str, Concern]

    # Asking

    async def request_approval(self, question: Question) -> Approval:
        async with self.units.open(question.organization) as unit:
            approval, told = await self.ask(unit, question)
            unit.tell(told)
        return approval

    async def ask(self, unit: Unit, question: Question) -> tuple[Approval, Line]:
        """The line is the caller's to tell, after its own."""
        approval = Approval(
            id=self.ids.short("apr"),
            organization=question.organization,
            status=ApprovalStatus.PENDING,
            title=question.title,
            description=question.description,
            subject=question.subject,
            requested_by=question.requested_by["name"],
            created_at=unit.now,
            expires_at=unit.now + self.expire_after_ms,
        )
        await repo.add(unit.connection, approval)
        return approval, _line(approval, "approval_requested", question.requested_by)

    # Deciding

    async def approve_request(
        self, organization: str, approval_id: str, actor: dict[str, str], reason: str | None
    ) -> Approval:
        return await self._decide(organization, approval_id, ApprovalStatus.APPROVED, actor, reason)

    async def reject_request(
        self, organization: str, approval_id: str, actor: dict[str, str], reason: str
    ) -> Approval:
        return await self._decide(organization, approval_id, ApprovalStatus.REJECTED, actor, reason)

    async def expire_due(self) -> int:
        """Ends what nobody decided in time; how many."""
        expired, now = 0, self.units.clock.now_ms
        while due := await repo.due(self.units.db, now(), _BATCH):
            for approval in due:
                expired += await self._expire(approval)
        return expired

    async def call_off(
        self, unit: Unit, approval_id: str, actor: dict[str, str], reason: str
    ) -> None:
        """The question is moot. In a unit of work that has the subject's row locked already."""
        approval = await repo.lock(unit.connection, approval_id)
        if approval is not None and approval.status is ApprovalStatus.PENDING:
            await _write_decision(unit, approval, ApprovalStatus.REJECTED, actor, reason)

    async def _decide(
        self,
        organization: str,
        approval_id: str,
        wanted: ApprovalStatus,
        actor: dict[str, str],
        reason: str | None,
    ) -> Approval:
        async with self.units.open(organization) as unit:
            approval = await self._locked(unit, approval_id)
            decision = decide(approval.status, approval.expires_at, wanted, unit.now)
            match decision:
                case DecideNow():
                    approval = await self._carry_out(unit, approval, decision, actor, reason)
                case Keep() | Refuse():
                    pass
                case _:
                    assert_never(decision)
        if approval.status is not wanted:
            raise AlreadyDecided(f"This request is {_in_words(approval)} already.")
        return approval

    async def _expire(self, due: Approval) -> bool:
        async with self.units.open(due.organization) as unit:
            approval = await self._locked(unit, due.id)
            decision = decide_expiry(approval.status, approval.expires_at, unit.now)
            match decision:
                case DecideNow():
                    await self._carry_out(unit, approval, decision, SYSTEM, None)
                    return True
                case Keep():
                    return False
                case _:
                    assert_never(decision)

    async def _locked(self, unit: Unit, approval_id: str) -> Approval:
        found = await repo.find(unit.connection, unit.organization, approval_id)
        if found is None:
            raise UnknownApproval
        if found.subject and (concern := self._concern(found)):
            await concern.lock(unit, found.subject.id)
        approval = await repo.lock(unit.connection, approval_id)
        return approval or found

    async def _carry_out(
        self,
        unit: Unit,
        approval: Approval,
        decision: DecideNow,
        actor: dict[str, str],
        reason: str | None,
    ) -> Approval:
        """The decision, and what follows from it."""
        if decision.expired:
            actor, reason = SYSTEM, EXPIRED
        decided = await _write_decision(unit, approval, decision.status, actor, reason)
        if concern := self._concern(decided):
            await concern.on_decided(unit, decided, actor)
        return decided

    def _concern(self, approval: Approval) -> Concern | None:
        return self.concerns.get(approval.subject.type) if approval.subject else None


async def _write_decision(
    unit: Unit,
    approval: Approval,
    status: ApprovalStatus,
    actor: dict[str, str],
    reason: str | None,
) -> Approval:
    MACHINE.check(approval.status, status)
    decided = replace(
        approval,
        status=status,
        decided_by=None if actor == SYSTEM else actor["name"],
        decided_at=unit.now,
        reason=reason,
    )
    await repo.write_decision(unit.connection, decided)
    unit.tell(_line(decided, f"approval_{status}", actor))
    return decided


def _line(approval: Approval, kind: str, actor: dict[str, str]) -> Line:
    data: dict[str, Any] = {
        "id": approval.id,
        "title": approval.title,
        "status": approval.status,
        "actor": actor,
    }
    if approval.status is not ApprovalStatus.PENDING:
        data |= {
            "from": ApprovalStatus.PENDING,
            "to": approval.status,
            "decidedBy": approval.decided_by,
            "reason": approval.reason,
        }
    about = str(approval.subject) if approval.subject else None
    return Line(f"approval:{approval.id}", kind, data, also=about)


def _in_words(approval: Approval) -> str:
    return EXPIRED if approval.reason == EXPIRED and not approval.decided_by else approval.status
