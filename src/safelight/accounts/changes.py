"""How an organization's members and tokens change: one transaction each, one after the other, with
a line of history as its last statement.

The actor is None for the command line, whose authority is access to the database itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import Caller
from safelight.errors import NotFound
from safelight.infra import activity
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock, Ids

COMMAND_LINE = "command line"


class UnknownOrganization(NotFound):
    """There is no such organization. `safelight organizations list` shows them."""


@dataclass(frozen=True)
class Changes:
    db: Database
    clock: Clock
    ids: Ids

    @asynccontextmanager
    async def to(
        self, organization: str, *, subject: str, kind: str, actor: Caller | None, **data: str
    ) -> AsyncIterator[Connection]:
        async with self.db.transaction() as connection:
            if not await repo.lock_organization(connection, organization):
                raise UnknownOrganization
            yield connection
            await reach("accounts.tell")
            await self.tell(connection, organization, subject, kind, actor, **data)

    async def tell(
        self,
        connection: Connection,
        organization: str,
        subject: str,
        kind: str,
        actor: Caller | None,
        **data: str,
    ) -> None:
        who = actor.as_actor() if actor else {"type": "system", "name": COMMAND_LINE}
        entry = Line(subject, kind, {**data, "actor": who})
        await activity.append(connection, organization, self.clock.now_ms(), entry)
