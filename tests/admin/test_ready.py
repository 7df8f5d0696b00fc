"""A probe waits for the slowest answer, not for their sum."""

import asyncio
from types import SimpleNamespace
from typing import Any

from safelight.admin.health.routes import readyz


async def test_everything_is_asked_at_once() -> None:
    met = asyncio.Barrier(2)

    async def check() -> None:
        async with asyncio.timeout(5):
            await met.wait()

    asked: Any = SimpleNamespace(check=check)
    engine: Any = SimpleNamespace(healthy=True, unprotected=[])
    assert (await readyz(asked, asked, engine)).status_code == 200
