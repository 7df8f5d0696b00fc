"""Changing what an organization publishes: one transaction each, with a line of history."""

from dataclasses import dataclass

from safelight.errors import NotFound
from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock, Ids
from safelight.settings import Settings
from safelight.submissions.looks import Look
from safelight.submissions.policies import repo
from safelight.submissions.policies.policy import Own, Policy, check, combined
from safelight.submissions.policies.repo import Blocked


class UnknownEntry(NotFound):
    """There is no such entry in the blocklist."""


@dataclass(frozen=True, slots=True)
class Policies:
    db: Database
    settings: Settings
    bus: Bus
    clock: Clock
    ids: Ids

    async def of(self, organization: str) -> Policy:
        return combined(self.settings, await repo.own(self.db, organization))

    async def change(self, organization: str, own: Own, actor: dict[str, str]) -> Policy:
        check(self.settings, own)
        async with self.db.transaction() as connection:
            await reach("submissions.put_policy")
            await repo.put_own(connection, organization, own)
            entry = Line("policy:submissions", "submission_policy_changed", {"actor": actor})
            await activity.append(connection, organization, self.clock.now_ms(), entry)
        self.bus.announce("activity", organization)
        return combined(self.settings, own)

    async def block(
        self,
        organization: str,
        checksum: str | None,
        look: Look | None,
        note: str,
        actor: dict[str, str],
    ) -> Blocked:
        entry = Blocked(
            self.ids.short("blk"),
            organization,
            note,
            checksum,
            look,
            actor["name"],
            self.clock.now_ms(),
        )
        async with self.db.transaction() as connection:
            await reach("submissions.block")
            await repo.block(connection, entry)
            told = Line(f"blocklist:{entry.id}", "blocklist_added", {"actor": actor, "note": note})
            await activity.append(connection, organization, entry.created_at, told)
        self.bus.announce("activity", organization)
        return entry

    async def unblock(self, organization: str, entry_id: str, actor: dict[str, str]) -> None:
        async with self.db.transaction() as connection:
            await reach("submissions.unblock")
            if not await repo.unblock(connection, organization, entry_id):
                raise UnknownEntry
            told = Line(f"blocklist:{entry_id}", "blocklist_removed", {"actor": actor})
            await activity.append(connection, organization, self.clock.now_ms(), told)
        self.bus.announce("activity", organization)
