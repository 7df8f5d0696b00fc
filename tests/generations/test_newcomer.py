"""A new provider is one file and one line: whatever is said of providers is said of it too."""

from pathlib import Path

import pytest

from generations.newcomer import Newcomer
from generations.world import world
from safelight.generations.jobs import work
from safelight.generations.providers import registry


@pytest.fixture(autouse=True)
def _the_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PROVIDERS", (*registry.PROVIDERS, Newcomer))


async def test_it_is_shown(database_url: str, directory: Path) -> None:
    async with world(database_url, directory, worker=False) as made, made.client() as client:
        shown = (await client.http.get("/api/models")).json()["providers"]
        assert shown[-1] == {
            "name": "newcomer",
            "configured": True,
            "kinds": ["image", "video"],
            "models": "Any model named `new/…`.",
        }
        # The others are there as ever, by their own words.
        assert [one["name"] for one in shown] == ["runware", "replicate", "studio", "newcomer"]
        assert all(one["models"] for one in shown)


async def test_it_makes_what_is_its_own_by_name(database_url: str, directory: Path) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        done = await client.over(await client.ask("new/picture", count=2))
        assert (done["provider"], done["artifactCount"], done["cost"]) == ("newcomer", 2, 4)
        refused = await client.over(await client.ask("new/picture", input={"fail": "refused"}))
        assert refused["tasks"][0]["error"]["code"] == "refused"


async def test_it_has_a_kind_of_job_to_itself(database_url: str, directory: Path) -> None:
    async with world(database_url, directory, worker=False) as made, made.client() as client:
        await client.ask("new/picture")
        kinds = {one.name: one.queued for one in await made.queue.status()}
        assert kinds["generations.newcomer"] == 1
        handled = [one.kind for one in made.generations.handlers]
        assert handled.count(work("newcomer")) == 1
