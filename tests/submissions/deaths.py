"""Deaths without the cost of a birth: a forked copy of this process, with everything loaded, does an
errand at a desk of its own and dies on the way. It touches none of our connections and leaves by
`os._exit`, so nothing of ours is closed or written twice. Not with a bucket: its client has threads,
which a fork does not copy."""

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Callable

from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from sandbox.shared import shared_sandbox
from submissions.desk import Desk

Errand = Callable[[Desk], Awaitable[object]]


async def killed_at(point: str, desk: Desk, errand: Errand) -> None:
    """`point` may end in `@N`, for the Nth time it is passed."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)  # a child that neither dies nor ends, ends
            asyncio.events._set_running_loop(None)  # the parent's
            asyncio.run(_run(point, desk, errand))
        except BaseException:  # noqa: BLE001 - whatever it is, our parent's frames are not ours
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended == EXIT_CODE, f"not killed at {point}: ended with {ended}"


async def _run(point: str, parents: Desk, errand: Errand) -> None:
    db = await Database.open(parents.db.url, pool_size=4)
    sandbox = shared_sandbox()  # our parent waits for us, and asks none of the children
    desk = Desk(
        db,
        directory=parents.directory,
        sandbox=sandbox,
        clock=parents.clock,
        tools=parents.tools,
    )
    name, _, nth = point.partition("@")
    failpoints.arm(name, f"exit@{nth or 1}")
    await errand(desk)
