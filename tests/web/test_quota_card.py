"""What an organization may use and uses, in its settings."""

import html
import re
from dataclasses import dataclass

import pytest

from accounts.world import World
from safelight.accounts.access import Role
from safelight.infra.activity import Unit
from safelight.library.retention import repo as retention
from safelight.library.retention.retention import RetentionLimits
from safelight.quotas import repo
from safelight.quotas.lifecycle import Meter, Quota
from safelight.web.gauges import gauge

BYTES, UPLOADS, DAILY = Meter.STORED_BYTES, Meter.UPLOADS, Meter.SUBMISSIONS


@pytest.fixture
async def world(world: World) -> World:
    world.registry.add(RetentionLimits(world.units, telling=False))
    await world.organization("acme", "globex", "initech")
    await world.user("ada", {"acme": Role.ADMIN, "globex": Role.ADMIN, "initech": Role.APPROVER})
    await world.user("vera", {"acme": Role.APPROVER}, operator=True)
    return world


@dataclass(frozen=True)
class Shown:
    words: list[str]
    bars: list[dict[str, str]]
    page: str


async def look(world: World, user: str, organization: str) -> Shown | None:
    """The card of an organization."""
    async with world.browser(await world.cookie(user)) as client:
        page = (await client.get(f"/app/{organization}/settings/usage")).text
    card = re.search(r'<ul[^>]*aria-labelledby="used".*?</ul>', page, re.DOTALL)
    if card is None:
        return None
    texts = re.findall(r'<p class="gauge__words">(.*?)</p>', card[0], re.DOTALL)
    words = [" ".join(html.unescape(re.sub("<[^>]+>", "", text)).split()) for text in texts]
    bars = [
        dict(re.findall(r'(\w+)="([^"]*)"', bar)) for bar in re.findall("<meter[^>]*>", card[0])
    ]
    return Shown(words, bars, card[0])


async def charge(world: World, meter: Meter, amount: int, organization: str = "acme") -> None:
    async with world.db.transaction() as connection:
        await repo.charge(connection, organization, meter, amount, world.clock.now_ms())


async def test_each_meter_has_its_words_and_its_bar(world: World) -> None:
    limits = {BYTES: 3 * 1024**2, UPLOADS: 30, Meter.GENERATIONS: 10_000, DAILY: 0}
    await repo.put_limits(world.db, "", limits)
    await repo.put_limits(world.db, "acme", {UPLOADS: 4})
    await charge(world, BYTES, 1536 * 1024)
    await charge(world, UPLOADS, 3)
    await charge(world, DAILY, 1234)
    shown = await look(world, "ada", "acme")
    assert shown
    assert shown.words == [
        "Stored 1.5 MiB of 3 MiB",
        "Uploads this minute 3 of 4",
        "Generations today 0 of 10,000",
        "Submissions today 1,234, no limit",
    ]
    values = [(bar["value"], bar["max"]) for bar in shown.bars]
    assert values == [("1572864", "3145728"), ("3", "4"), ("0", "10000")]
    assert "style=" not in shown.page
    other = await look(world, "ada", "globex")
    assert other
    assert other.words[:2] == ["Stored 0 bytes of 3 MiB", "Uploads this minute 0 of 30"]


async def test_all_of_the_organization_sees_it_and_nobody_else(world: World) -> None:
    await repo.put_limits(world.db, "", {BYTES: 5})
    assert await look(world, "ada", "initech")
    assert await look(world, "vera", "acme")
    assert await look(world, "vera", "globex") is None


async def test_how_long_originals_are_kept(world: World) -> None:
    async with world.db.transaction() as connection:
        await retention.put(Unit(connection, "acme", 1), 30)
    async with world.browser(await world.cookie("vera")) as client:
        page = (await client.get("/app/acme/settings/usage")).text
    assert "Originals are kept for 30 days, and then deleted" in page


async def test_what_is_used_up_says_what_to_do(world: World) -> None:
    await repo.put_limits(world.db, "acme", {BYTES: 5, UPLOADS: 5, DAILY: 5})
    await charge(world, BYTES, 5)
    await charge(world, UPLOADS, 4)
    await charge(world, DAILY, 5)
    shown = await look(world, "ada", "acme")
    assert shown
    assert "No room left. Delete something, or ask an operator of this server for more." in (
        html.unescape(shown.page)
    )
    assert "Nearly used up." in shown.page
    assert re.search(
        r"Used up until\s+<local-time><time datetime=\"\d{4}-\d\d-\d\dT00:00", shown.page
    )


@pytest.mark.parametrize(
    ("used", "most", "tone"),
    [(0, 10, "calm"), (7, 10, "calm"), (8, 10, "near"), (10, 10, "full"), (99, 10, "full"),
     (99, None, "calm")],
)  # fmt: skip
def test_how_near_the_limit_is(used: int, most: int | None, tone: str) -> None:
    assert gauge(Quota(BYTES, most, own=False, used=used, resets_at=None)).tone == tone
