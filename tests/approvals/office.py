"""Approvals in one process, about a thing that remembers what was decided about it."""

from dataclasses import dataclass, field
from typing import Any

import httpx

from accounts.world import World
from safelight.accounts.access import Role
from safelight.approvals.lifecycle import Approval, Subject
from safelight.approvals.workflow import Approvals, Question
from safelight.infra.activity import Unit, Units
from safelight.infra.bus import Bus
from safelight.infra.history import Line

ORG = "acme"
ADA = {"type": "user", "name": "ada"}
WEEK_MS = 7 * 86_400_000


@dataclass
class Thing:
    """What an approval is about."""

    heard: list[tuple[str, str]] = field(default_factory=list)
    trouble: Exception | None = None

    async def lock(self, unit: Unit, _: str) -> None:
        assert unit.connection.is_in_transaction()

    async def on_decided(self, unit: Unit, approval: Approval, _: dict[str, str]) -> None:
        assert unit.connection.is_in_transaction()
        if self.trouble:
            raise self.trouble
        self.heard.append((approval.id, approval.status))
        unit.tell(Line("thing:1", "thing_decided", {"status": approval.status}))


@dataclass
class Office(World):
    thing: Thing = field(default_factory=Thing)

    def __post_init__(self) -> None:
        super().__post_init__()
        units = Units(self.db, Bus(self.db, "office"), self.clock)
        self.approvals = Approvals(units, self.ids, WEEK_MS, {"thing": self.thing})
        self.registry.add(self.approvals)

    async def as_role(self, role: Role, organization: str = ORG) -> httpx.AsyncClient:
        return self.program(await self.token(organization, role))

    async def ask(self, title: str = "May I?", *, about_thing: bool = False) -> str:
        subject = Subject("thing", "1") if about_thing else None
        question = Question(ORG, title, "It matters.", ADA, subject)
        return (await self.approvals.request_approval(question)).id

    async def call(
        self, method: str, path: str = "", role: Role = Role.APPROVER, **options: Any
    ) -> httpx.Response:
        async with await self.as_role(role) as client:
            return await client.request(
                method, f"/api/organizations/{ORG}/approvals{path}", **options
            )

    async def story(self) -> list[tuple[str, str, dict[str, Any]]]:
        rows = await self.db.fetch(
            "SELECT subject, type, data FROM activity WHERE organization = $1 "
            "AND subject ~ '^(approval|thing):' ORDER BY seq",
            ORG,
        )
        return [(row["subject"], row["type"], row["data"]) for row in rows]
