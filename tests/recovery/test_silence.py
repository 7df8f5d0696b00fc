"""A whole server whose connections to the database go silent all at once: it is itself again."""

from pathlib import Path

import httpx
import pytest

from faults.relay import relay
from harness import picture
from inprocess import application
from safelight.infra.connecting import Limits
from safelight.testing.waiting import until

# The real ones, an eighth of them: a server may take 30 s, so this one four.
QUICK = Limits(connect=1.2, acquire=1.9, command=1.9, idle=1.2, lock=1.5)
pytestmark = pytest.mark.timeout(120)


async def test_it_is_itself_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads are taken, stored and looked at; and the ones under way were not lost."""
    monkeypatch.setattr("safelight.infra.db.LIMITS", QUICK)
    monkeypatch.setattr("safelight.infra.connecting.LIMITS", QUICK)
    async with (
        relay(database_url) as (line, through),
        application(through, tmp_path, worker=True) as app,
        app.client() as client,
    ):

        async def sent(name: str) -> bool:
            files = {"file": (name, picture("PNG"))}
            return (await client.post("/api/upload", files=files)).status_code == 201

        async def known(name: str) -> bool:
            answer = await client.get(f"/api/organizations/default/uploads/{name}")
            return answer.status_code == 200 and bool(answer.json()["classificationLabel"])

        async def ready() -> bool:
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.ReadTimeout:
                return False

        assert await sent("before.png")
        await until(lambda: known("before.png"), 60)
        assert await sent("meanwhile.png")
        line.silence()
        line.forward()
        await until(lambda: sent("after.png"), 60)
        await until(ready, 60)
        for name in ("meanwhile.png", "after.png"):
            await until(lambda name=name: known(name), 60)  # type: ignore[misc]
