"""Reads that a replica may answer, never older than what was committed when they began.

    found = await lists.page(reading, …)     # `FreshReads` stands where a `Database` does

The primary says how far it has written, once for all reads that wait at that moment; the replica
answers when it has replayed that far, in the same connection. So no caller has to carry a position,
and it does not matter which server somebody wrote or read by before.

Guarantees
- A read sees whatever was committed before it began: one's own writes, and all that anybody saw.
- A replica that is away, behind, of another timeline or of another database answers nothing; the
  primary does, nobody is told, and a counter says so. For a moment it is not asked again.
- What is not a single read (a connection, a transaction, a write) is the primary's.

Gap: a replica that its role may not ask whom it follows (pg_stat_wal_receiver needs
pg_read_all_stats) counts as one that follows nobody.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from prometheus_client import Counter

from safelight.infra.batches import Batches
from safelight.infra.connecting import Address, Connection, Limits
from safelight.infra.db import AWAY, Database
from safelight.infra.metrics import Metrics

# A replica that does not answer soon is no help: the primary would have answered by then.
_LIMITS = Limits(connect=1, acquire=1, command=2)
_PATIENCE_SECONDS = 0.05  # for what is on its way
_LOOK_SECONDS = 0.004
_AVOID_SECONDS = 2.0
_AT_ONCE = 10_000
_WRITTEN = """
SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint AS lsn,
       ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::integer AS timeline,
       (SELECT system_identifier FROM pg_control_system()) AS cluster
"""
_REPLAYED = """
SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint AS lsn,
       (SELECT received_tli FROM pg_stat_wal_receiver) AS timeline,
       (SELECT system_identifier FROM pg_control_system()) AS cluster
"""


class NotThere(Exception):
    """The replica has not replayed as much, or follows somebody else."""


@dataclass(frozen=True, slots=True)
class WalPosition:
    lsn: int
    timeline: int
    cluster: int


class FreshReads(Database):
    """The primary, and a replica for its single reads, if there is one."""

    def __init__(
        self,
        primary: Database,
        replica: Database | None,
        metrics: Metrics,
        avoid: float = _AVOID_SECONDS,
    ) -> None:
        super().__init__(primary.address, primary.limits, 1)
        self.pool, self.turns = primary.pool, primary.turns
        self._primary = primary
        self._replica = replica
        self._avoid = avoid
        self._avoided_until = 0.0
        self._positions: Batches[None, WalPosition] = Batches(self._ask_primary, _AT_ONCE)
        self._reads: Counter = metrics.replica_reads

    @classmethod
    def of(
        cls, primary: Database, url: str | None, pool_size: int, metrics: Metrics
    ) -> "FreshReads":
        """Whether the replica is there shows when it is asked."""
        replica = (
            None if url is None else Database(Address.plain(_of_any_kind(url)), _LIMITS, pool_size)
        )
        return cls(primary, replica, metrics)

    async def close(self) -> None:
        """The replica's connections; the primary's are whoever's who opened it."""
        if self._replica is not None:
            await self._replica.close()

    async def fetch(
        self, sql: str, *values: Any, timeout: float | None = None
    ) -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = await self._ask("fetch", sql, values, timeout)
        return found

    async def fetchrow(self, sql: str, *values: Any) -> asyncpg.Record | None:
        found: asyncpg.Record | None = await self._ask("fetchrow", sql, values, None)
        return found

    async def fetchval(self, sql: str, *values: Any, timeout: float | None = None) -> Any:
        return await self._ask("fetchval", sql, values, timeout)

    async def _ask(self, how: str, sql: str, values: tuple[Any, ...], timeout: float | None) -> Any:
        if self._replica is not None and time.monotonic() >= self._avoided_until:
            try:
                position = await self._positions.add("", None)
                async with self._replica.connection() as connection:
                    await _catch_up(connection, position)
                    limit = self._replica.limits.command if timeout is None else timeout
                    found = await getattr(connection, how)(sql, *values, timeout=limit)
            except (NotThere, asyncpg.ObjectNotInPrerequisiteStateError):  # or there is no primary
                self._leave_alone("behind")
            except AWAY:
                self._leave_alone("away")
            else:
                self._reads.labels("replica").inc()
                return found
        more = {} if timeout is None else {"timeout": timeout}
        return await getattr(self._primary, how)(sql, *values, **more)

    def _leave_alone(self, why: str) -> None:
        self._reads.labels(why).inc()
        self._avoided_until = time.monotonic() + self._avoid

    async def _ask_primary(self, _: str, asked: Sequence[None]) -> list[WalPosition]:
        row = await self._primary.fetchrow(_WRITTEN)
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        return [WalPosition(**row)] * len(asked)


async def _catch_up(connection: Connection, wanted: WalPosition) -> None:
    """Waits a moment for what is on its way."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while True:
        row = await connection.fetchrow(_REPLAYED)
        if row is None or (row["timeline"], row["cluster"]) != (wanted.timeline, wanted.cluster):
            raise NotThere
        if row["lsn"] is not None and row["lsn"] >= wanted.lsn:
            return
        if time.monotonic() >= patience:
            raise NotThere
        await asyncio.sleep(_LOOK_SECONDS)


def _of_any_kind(url: str) -> str:
    """Others' connections lead to a server that takes writes, unless the address says otherwise."""
    if "target_session_attrs" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}target_session_attrs=any"
