"""Asking a person: request, then one decision, by somebody who may or by the time limit.

Guarantees
- An approval is decided once. Under its row's lock the first decision counts; the same one again
  changes nothing, the other is `AlreadyDecided`, however close together they come.
- Whoever it is about learns of the decision in the same transaction (`Concern`), so neither exists
  without the other. Locks are taken in one order: the subject's row, then the approval's.
- A pending one outlives restarts and expires to rejected, at the latest a minute after its time;
  a decision that comes after its time finds it expired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from safelight.approvals import repo
from safelight.approvals.decide import EXPIRED, Keep, Refuse, Settle, decide, decide_expiry
from safelight.approvals.lifecycle import Status, check
from safelight.approvals.repo import Approval, Subject
from safelight.errors import Conflict, NotFound
from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock, Ids

SYSTEM = {"type": "system", "name": "safelight"}
_BATCH = 100


class UnknownApproval(NotFound):
    """There is no such approval request."""


class AlreadyDecided(Conflict):
    """This request was already decided the other way."""

    code = "ALREADY_DECIDED"


class Concern(Protocol):
    """What an approval can be about, by the type of its subject. Both are called inside the
    deciding transaction and must be quick."""

    async def lock(self, connection: Connection, subject_id: str) -> None: ...

    async def decided(
        self, connection: Connection, approval: Approval, actor: dict[str, str]
    ) -> Sequence[Line]:
        """Acts upon it; returns history to be appended beside the decision's."""


@dataclass(frozen=True, slots=True)
class Question:
    organization: str
    title: str
    description: str
    requested_by: dict[str, str]
    subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class Approvals:
    db: Database
    bus: Bus
    clock: Clock
    ids: Ids
    expire_after_ms: int
    concerns: Mapping[str, Concern]

    # Asking

    async def request_approval(self, question: Question) -> Approval:
        async with self.db.transaction() as connection:
            approval, told = await self.ask(connection, question)
            await activity.append(connection, question.organization, approval.created_at, told)
        self.bus.announce("activity", question.organization)
        return approval

    async def ask(self, connection: Connection, question: Question) -> tuple[Approval, Line]:
        """Inside the caller's transaction, which appends the entry as its last statement."""
        now = self.clock.now_ms()
        approval = Approval(
            id=self.ids.short("apr"),
            organization=question.organization,
            status=Status.PENDING,
            title=question.title,
            description=question.description,
            subject=question.subject,
            requested_by=question.requested_by["name"],
            created_at=now,
            expires_at=now + self.expire_after_ms,
        )
        await reach("approvals.add")
        await repo.add(connection, approval)
        return approval, _entry(approval, "approval_requested", question.requested_by)

    # Deciding

    async def approve_request(
        self, organization: str, approval_id: str, actor: dict[str, str], reason: str | None
    ) -> Approval:
        return await self._decide(organization, approval_id, Status.APPROVED, actor, reason)

    async def reject_request(
        self, organization: str, approval_id: str, actor: dict[str, str], reason: str
    ) -> Approval:
        return await self._decide(organization, approval_id, Status.REJECTED, actor, reason)

    async def expire_due(self) -> int:
        """Ends what nobody decided in time; how many."""
        expired = 0
        while due := await repo.due(self.db, self.clock.now_ms(), _BATCH):
            for approval in due:
                expired += await self._expire(approval)
        return expired

    async def call_off(
        self, connection: Connection, approval_id: str, actor: dict[str, str], reason: str
    ) -> list[Line]:
        """The question is moot. Inside a transaction that has the subject's row locked already."""
        approval = await repo.lock(connection, approval_id)
        if approval is None or approval.status is not Status.PENDING:
            return []
        _, told = await self._settle(connection, approval, Status.REJECTED, actor, reason)
        return [told]

    async def _decide(
        self,
        organization: str,
        approval_id: str,
        wanted: Status,
        actor: dict[str, str],
        reason: str | None,
    ) -> Approval:
        async with self.db.transaction() as connection:
            approval = await self._locked(connection, organization, approval_id)
            decision = decide(approval.status, approval.expires_at, wanted, self.clock.now_ms())
            if isinstance(decision, Settle):
                approval = await self._carry_out(connection, approval, decision, actor, reason)
        if isinstance(decision, Settle):
            self.bus.announce("activity", organization)
        if isinstance(decision, Refuse) or approval.status is not wanted:
            raise AlreadyDecided(f"This request is {_in_words(approval)} already.")
        return approval

    async def _expire(self, due: Approval) -> bool:
        async with self.db.transaction() as connection:
            approval = await self._locked(connection, due.organization, due.id)
            now = self.clock.now_ms()
            decision = decide_expiry(approval.status, approval.expires_at, now)
            if isinstance(decision, Keep):
                return False
            await self._carry_out(connection, approval, decision, SYSTEM, None)
        self.bus.announce("activity", due.organization)
        return True

    async def _locked(
        self, connection: Connection, organization: str, approval_id: str
    ) -> Approval:
        found = await repo.find(connection, organization, approval_id)
        if found is None:
            raise UnknownApproval
        if found.subject and (concern := self._concern(found)):
            await concern.lock(connection, found.subject.id)
        approval = await repo.lock(connection, approval_id)
        return approval or found

    async def _carry_out(
        self,
        connection: Connection,
        approval: Approval,
        decision: Settle,
        actor: dict[str, str],
        reason: str | None,
    ) -> Approval:
        """The decision, what follows from it, and both their history."""
        if decision.expired:
            actor, reason = SYSTEM, EXPIRED
        settled, told = await self._settle(connection, approval, decision.status, actor, reason)
        concern = self._concern(settled)
        follows = await concern.decided(connection, settled, actor) if concern else ()
        now = settled.decided_at or 0
        await activity.append(connection, settled.organization, now, told, *follows)
        return settled

    async def _settle(
        self,
        connection: Connection,
        approval: Approval,
        status: Status,
        actor: dict[str, str],
        reason: str | None,
    ) -> tuple[Approval, Line]:
        check(approval.status, status)
        settled = replace(
            approval,
            status=status,
            decided_by=None if actor == SYSTEM else actor["name"],
            decided_at=self.clock.now_ms(),
            reason=reason,
        )
        await reach("approvals.settle")
        await repo.settle(connection, settled)
        return settled, _entry(settled, f"approval_{status}", actor)

    def _concern(self, approval: Approval) -> Concern | None:
        return self.concerns.get(approval.subject.type) if approval.subject else None


def _entry(approval: Approval, kind: str, actor: dict[str, str]) -> Line:
    data: dict[str, Any] = {
        "id": approval.id,
        "title": approval.title,
        "status": approval.status,
        "actor": actor,
    }
    if approval.status is not Status.PENDING:
        data |= {
            "from": Status.PENDING,
            "to": approval.status,
            "decidedBy": approval.decided_by,
            "reason": approval.reason,
        }
    about = str(approval.subject) if approval.subject else None
    return Line(f"approval:{approval.id}", kind, data, also=about)


def _in_words(approval: Approval) -> str:
    return EXPIRED if approval.reason == EXPIRED and not approval.decided_by else approval.status
