"""Machines whose clocks differ by minutes: the upload that came later is the image."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import structlog

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from safelight.infra.injected import SystemClock
from safelight.testing.waiting import until

EARLIER, LATER = picture(colour="red"), picture(colour="blue")


class Wrong(SystemClock):
    """Of a machine that nobody has set."""

    def __init__(self, minutes: int) -> None:
        self._minutes = minutes

    def now_ms(self) -> int:
        return super().now_ms() + self._minutes * 60_000


@pytest.mark.parametrize("minutes", [5, -5])
async def test_the_later_one_wins(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    async with AsyncExitStack() as stack:
        with structlog.testing.capture_logs() as logs, monkeypatch.context() as patch:
            patch.setattr("safelight.wiring.SystemClock", partial(Wrong, minutes))
            wrong = await stack.enter_async_context(application(database_url, tmp_path))
        told = [log for log in logs if "our clock and the database's differ" in log["event"]]
        assert round(told[0]["ahead_seconds"] / 60) == minutes
        right = await stack.enter_async_context(application(database_url, tmp_path))
        there = Api(wrong, await stack.enter_async_context(wrong.client()))
        here = Api(right, await stack.enter_async_context(right.client()))
        one, other = (there, here) if minutes > 0 else (here, there)
        first = await one.upload("same.jpg", EARLIER)
        second = await other.upload("same.jpg", LATER)
        await stack.enter_async_context(application(database_url, tmp_path, worker=True))
        await here.stored(second)

        async def is_over() -> bool:
            return bool((await here.image(first["imageId"]))["status"] != "INGESTED")

        await until(is_over)
        assert (await here.client.get(f"{LIBRARY}/same.jpg/content")).content == LATER
