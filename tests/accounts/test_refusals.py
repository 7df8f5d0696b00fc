"""What was refused is kept in mind: the database is not asked again and again."""

import httpx
import pytest

from accounts.world import PASSWORD, World
from safelight.accounts.access import Role
from safelight.accounts.sign_in import repo
from safelight.accounts.sign_in.refusals import MOST, TRUSTED_MS, Refusals

NOW = 1_800_000_000_000
HOME, AWAY = "192.0.2.7", "198.51.100.1"


def test_it_is_kept_until_the_last_of_them_may_try() -> None:
    refusals = Refusals()
    refusals.keep({"a": NOW + 500, "b": NOW + 900}, NOW)
    assert refusals.until(["a"], NOW) == NOW + 500
    assert refusals.until(["a", "b", "c"], NOW + 1) == NOW + 900
    assert refusals.until(["c"], NOW) == 0


def test_the_database_is_asked_again_now_and_then() -> None:
    refusals = Refusals()
    refusals.keep({"a": NOW + 900_000}, NOW)
    assert refusals.until(["a"], NOW + TRUSTED_MS - 1) == NOW + 900_000
    assert refusals.until(["a"], NOW + TRUSTED_MS) == 0
    assert refusals.until(["a"], NOW - 1) == 0, "a clock that was set back"


def test_what_is_kept_is_bounded() -> None:
    refusals = Refusals()
    for number in range(MOST + 5):
        refusals.keep({f"{number}": NOW + 500, "often": NOW + 500}, NOW)
    assert len(refusals._kept) == MOST
    assert refusals.until(["often", f"{MOST}"], NOW) == NOW + 500
    assert refusals.until(["0"], NOW) == 0


def test_what_succeeded_is_forgotten() -> None:
    refusals = Refusals()
    refusals.keep({"a": NOW + 500, "b": NOW + 500}, NOW)
    refusals.forget(["a", "c"])
    assert refusals.until(["a"], NOW) == 0
    assert refusals.until(["b"], NOW) == NOW + 500


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("acme")
    await world.user("ada", {"acme": Role.MEMBER})
    return world


async def enter(client: httpx.AsyncClient, password: str = "wrong") -> httpx.Response:
    return await client.post("/login", data={"username": "ada", "password": password})


async def test_who_is_over_the_limit_is_told_without_the_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def watched(*given: object) -> dict[str, list[int]]:
        asked.append(given)
        return await looking(*given)  # type: ignore[arg-type]

    looking = repo.failures_since
    async with world.browser(address=AWAY) as client:
        tried = [(await enter(client)).status_code for _ in range(11)]
        assert tried == [401] * 10 + [429]
        monkeypatch.setattr(repo, "failures_since", watched)
        world.clock.advance(seconds=50)
        refused = [await enter(client) for _ in range(20)]
        assert {answer.status_code for answer in refused} == {429}
        assert {answer.headers["retry-after"] for answer in refused} == {"850"}
        assert not asked
        world.clock.advance(seconds=10)
        assert (await enter(client, PASSWORD)).headers["retry-after"] == "840"
        assert len(asked) == 1, "after a minute it may have changed its mind"
    async with world.browser(address=HOME) as elsewhere:
        assert (await enter(elsewhere, PASSWORD)).status_code == 303


async def test_who_gets_in_after_all_is_not_held_to_it(world: World) -> None:
    """Ten are under way and an eleventh is refused; then one of the ten has the right password."""
    place = f"both:ada@{AWAY}"
    attempts = [await world.sign_in.attempts.begin([place]) for _ in range(10)]
    async with world.browser(address=AWAY) as client:
        assert (await enter(client, PASSWORD)).status_code == 429
        await world.sign_in.attempts.succeed(world.db, attempts[0])
        world.sign_in.attempts.forget(attempts[0])
        assert (await enter(client, PASSWORD)).status_code == 303
