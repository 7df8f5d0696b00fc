"""Functions that only servers of the version before call, while they run beside this one."""

import asyncio
from datetime import timedelta

from holding import until_waiting
from infra.queue.crew import WORK, Number
from safelight.infra.db import Database
from safelight.infra.queue import repo

LINES = [{"subject": "x:1", "type": "told"}]


async def test_a_unit_ends_with_its_own_job_or_not_at_all(database: Database) -> None:
    await repo.enqueue(database, WORK, Number(1), "acme")
    [job] = await repo.claim(
        database, [(WORK.name, 1, "")], "here", "me", timedelta(seconds=9)
    )  # fmt: skip

    async def close(claim: int) -> tuple[bool, int, int]:
        closed = await database.fetchval(
            "SELECT unit_close($1, $2, 'acme', 1, $3)", job["id"], claim, LINES
        )
        left = await database.fetchrow(
            "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM activity)"
        )
        assert left
        return closed, *left

    assert await close(job["claim"] + 1) == (False, 1, 0)
    assert await close(job["claim"]) == (True, 0, 1)


async def test_a_delete_waits_for_an_upload_that_is_just_being_stored(database: Database) -> None:
    await database.execute(
        """
        INSERT INTO organizations (id, created_at) VALUES ('acme', 0);
        SELECT image_record(jsonb_build_object(
            'id', 'i', 'organization', 'acme', 'name', 'a', 'idempotency_key', gen_random_uuid(),
            'status', 'INGESTED', 'temp_path', '', 'mime_type', '', 'size_bytes', 1, 'checksum', '',
            'width', 1, 'height', 1, 'created_at', 0, 'updated_at', 0), 'here', '[]')
        """
    )
    async with database.transaction() as storing:
        await storing.execute("SELECT object_lock('acme/a')")
        deleting = asyncio.create_task(
            database.execute("SELECT upload_delete('acme', 'a', true, $1, 1)", LINES)
        )
        await until_waiting(database, 1)
        await storing.execute("UPDATE images SET status = 'STORED'")
    await deleting
    assert await database.fetchval("SELECT count(*) FROM delete_intents") == 0
