"""Tables that are kept by stretches of their numbers (sql/stretches.sql), and their upkeep.

Guarantees
- No row is refused for want of a table: three are made ahead, at every start and every hour, each
  with room for a thousand million numbers.
- Going on to the next stretch is a number: nothing is moved, and nobody waits.
- What is needed of an old stretch stays, also what is needed of one that is given up. The rest goes
  with its table, which costs as much as what is kept.
- A death anywhere leaves it as it was, and the next run goes on.

A stretch with little to drop stays as it is, and is looked at again when a month has passed.
"""

from dataclasses import dataclass

import structlog

from safelight.infra.db import Database, read, write

_MONTH_MS = 30 * 86_400_000
_LEAST = 100_000  # rows that are worth a table
_MOST = 10_000_000  # rows that one look goes through in time
_SHRINK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Stretched:
    parent: str
    sequence: str
    needed: str  # a condition that says of a row of an old stretch whether somebody needs it
    least: int = _LEAST
    most: int = _MOST

    async def tend(self, db: Database, now: int) -> None:
        """What is old is told by how long ago its stretch was left."""
        await make_ahead(db, self)
        await turn(db, self, now)
        number = await due(db, self, now - _MONTH_MS)
        if number is not None and await shrink(db, self, number, now):
            structlog.get_logger().info("forgot old rows", table=self.parent, stretch=number)


@write
async def make_ahead(db: Database, stretched: Stretched) -> None:
    await db.execute("SELECT stretches_ahead($1, $2)", stretched.parent, stretched.sequence)


@write
async def turn(db: Database, stretched: Stretched, now: int) -> None:
    """Goes on to the next stretch, if it is time."""
    await db.execute(
        "SELECT stretches_turn($1, $2, $3, $4, $5, $6)",
        stretched.parent,
        stretched.sequence,
        stretched.least,
        stretched.most,
        now - _MONTH_MS,
        now,
    )


@read
async def due(db: Database, stretched: Stretched, before: int) -> int | None:
    """A stretch that was left before then, and not looked through since."""
    number: int | None = await db.fetchval("SELECT stretches_due($1, $2)", stretched.parent, before)
    return number


@write
async def shrink(db: Database, stretched: Stretched, number: int, now: int) -> bool:
    """Forgets what nobody needs, if that is most of it."""
    shrunk: bool = await db.fetchval(
        "SELECT stretch_shrink($1, $2, $3, $4)",
        stretched.parent,
        number,
        stretched.needed,
        now,
        timeout=_SHRINK_SECONDS,
    )
    return shrunk
