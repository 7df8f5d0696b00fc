"""What docs/queue.md says to paste can be pasted."""

import re
from pathlib import Path

import asyncpg
import pytest

from infra.queue.crew import WORK, Number, a_queue, rows
from safelight.infra.db import Database

PAGE = (Path(__file__).parents[3] / "docs/queue.md").read_text()


async def test_every_statement_runs(database: Database) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        await database.execute(block)


async def test_the_redrive_it_shows_leaves_out_keys_that_live_again(database: Database) -> None:
    statement = next(b for b in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if "twin" in b)
    queue = a_queue(database)
    await queue.enqueue(database, WORK, Number(1), organization="a", key="k")
    await queue.enqueue(database, WORK, Number(2), organization="a", key="other")
    await database.execute(
        """UPDATE jobs SET status = 'dead', died_at = now(), error = '{"code": "TimeoutError"}'"""
    )
    await queue.enqueue(database, WORK, Number(3), organization="a", key="k")
    await database.execute(statement.replace("classification.run", WORK.name))
    assert [row["status"] for row in await rows(database)] == ["dead", "queued", "queued"]
    with pytest.raises(asyncpg.UniqueViolationError):
        await database.execute("UPDATE jobs SET status = 'queued', died_at = NULL")
    await queue.bus.stop()
