"""Nothing is computed on the event loop: others are answered while megabytes are looked through."""

import asyncio
import time
from dataclasses import fields

from safelight.accounts.access import Role
from safelight.sandbox.tail import tail_of
from safelight.submissions.findings import FileCase, KnownCase
from submissions.desk import Desk, rules_of
from submissions.pictures import photo

# What looks like the beginning of a page, again and again.
TAIL = b"<" * (16 << 20)


async def test_the_loop_is_free_while_a_long_tail_is_judged(desk: Desk) -> None:
    data = photo() + TAIL
    began = time.thread_time()
    tail_of(data, len(photo()))
    control = time.thread_time() - began  # what it would take here
    submission = await desk.submit(data)
    async with await desk.as_role(Role.VIEWER) as client:
        began = time.thread_time()
        working = asyncio.create_task(desk.work())
        assert (await client.get("/api/v1/submissions")).status_code == 200
        await working
        spent = time.thread_time() - began
    assert rules_of(await desk.see(submission)) == {"trailing_data": "review"}
    assert spent < control / 2


def test_no_rule_about_the_file_gets_its_bytes() -> None:
    given = {str(field.type) for case in (FileCase, KnownCase) for field in fields(case)}
    assert not any("bytes" in kind for kind in given)
