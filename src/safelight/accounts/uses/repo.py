"""When tokens were used last, by the hour."""

from safelight.accounts.repo import Executor
from safelight.infra.db import read, write


@write
async def note_use(db: Executor, token_id: str, now: int, before: int) -> None:
    """That it was used now, unless one after `before` is known."""
    await db.execute(
        """
        INSERT INTO token_uses AS known (token_id, used_at) VALUES ($1, $2)
        ON CONFLICT (token_id) DO UPDATE SET used_at = excluded.used_at WHERE known.used_at <= $3
        """,
        token_id,
        now,
        before,
    )


@read
async def last_uses(db: Executor, token_ids: list[str]) -> dict[str, int]:
    rows = await db.fetch(
        "SELECT token_id, used_at FROM token_uses WHERE token_id = ANY ($1)", token_ids
    )
    return {row["token_id"]: row["used_at"] for row in rows}
