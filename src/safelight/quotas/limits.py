"""Setting limits: the instance's at its start, an organization's by an operator."""

from collections.abc import Mapping
from dataclasses import dataclass

from safelight.accounts.members import hold_organization
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.quotas import repo
from safelight.quotas.lifecycle import Meter, Quota
from safelight.settings import Settings


async def declare(db: Database, settings: Settings) -> None:
    """The instance's limits, for the statements that keep them."""
    await repo.put_limits(db, "", {meter: getattr(settings, meter.setting) for meter in Meter})


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    units: Units

    async def change(
        self, organization: str, limits: Mapping[Meter, int | None], actor: Mapping[str, str]
    ) -> list[Quota]:
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            await repo.put_limits(unit.connection, organization, limits)
            told = {"actor": dict(actor), "limits": dict(limits)}
            unit.tell(Line("quotas", "quotas_changed", told))
            return await repo.quotas(unit.connection, organization, unit.now)
