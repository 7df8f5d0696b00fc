"""Changing what an organization publishes: one unit of work each."""

from dataclasses import dataclass

from safelight.errors import NotFound
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.infra.injected import Ids
from safelight.settings import Settings
from safelight.submissions.jobs import TAKE_DOWN, RuledOutPayload
from safelight.submissions.policies import repo
from safelight.submissions.policies.policy import (
    BlocklistEntry,
    Looks,
    Policy,
    PolicyOverrides,
    check,
    combined,
)


class UnknownBlocklistEntry(NotFound):
    """There is no such entry in the blocklist."""


@dataclass(frozen=True, slots=True)
class Policies:
    units: Units
    settings: Settings
    ids: Ids

    async def change(
        self, organization: str, own: PolicyOverrides, actor: dict[str, str]
    ) -> Policy:
        check(self.settings, own)
        async with self.units.open(organization) as unit:
            await repo.put_policy(unit.connection, organization, own)
            unit.tell(Line("policy:submissions", "submission_policy_changed", {"actor": actor}))
        return combined(self.settings, own)

    async def block(
        self,
        organization: str,
        checksum: str | None,
        looks: Looks,
        note: str,
        actor: dict[str, str],
    ) -> BlocklistEntry:
        """From the commit on nothing like it is published; what already was is a job to take
        down."""
        new = self.ids.short("blk")
        async with self.units.open(organization) as unit:
            await repo.lock_pictures(unit.connection, organization)
            entry = BlocklistEntry(
                new, organization, note, checksum, looks, actor["name"], unit.now
            )
            await repo.block(unit.connection, entry)
            await unit.enqueue(TAKE_DOWN, RuledOutPayload(new), key=new)
            unit.tell(Line(f"blocklist:{new}", "blocklist_added", {"actor": actor, "note": note}))
        return entry

    async def unblock(self, organization: str, entry_id: str, actor: dict[str, str]) -> None:
        async with self.units.open(organization) as unit:
            if not await repo.unblock(unit.connection, organization, entry_id):
                raise UnknownBlocklistEntry
            unit.tell(Line(f"blocklist:{entry_id}", "blocklist_removed", {"actor": actor}))
