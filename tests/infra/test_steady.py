"""What may be forgotten is judged by a clock that has proved steady."""

from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from safelight.errors import Unavailable
from safelight.infra.db import Database
from safelight.infra.metrics import Metrics
from safelight.infra.steady import (
    BELIEVED_MS,
    LEAP_MS,
    ClockWatch,
    Seen,
    SteadyTime,
    measure_skew,
    observe,
)
from safelight.testing.injected import START, Watch
from safelight.testing.waiting import until

HOUR = 3_600_000
DAY = 24 * HOUR


def hourly(seen: Seen | None, clock: int, hours: int) -> Seen:
    """Looks as upkeep does, with a database on the same machine."""
    for hour in range(hours):
        seen = observe(seen, clock + hour * HOUR, clock + hour * HOUR)
    assert seen is not None
    return seen


def test_a_steady_clock_is_believed() -> None:
    assert hourly(None, START, 100).time == START + 99 * HOUR


@pytest.mark.parametrize("hours", [1, 2, 12, 23])
def test_some_hours_ahead_forget_next_to_nothing(hours: int) -> None:
    """A month ahead, and then right again: at worst four days are missing from the thirty."""
    seen = hourly(None, START, 30)
    ahead = hourly(seen, START + 30 * HOUR + 31 * DAY, hours)
    assert ahead.time <= seen.time + 4 * (hours - 1) * HOUR <= seen.time + 4 * DAY
    right = START + (30 + hours) * HOUR
    assert hourly(ahead, right, 1).time <= right


def test_after_a_day_without_a_leap_it_is_believed() -> None:
    """A machine whose clock began in 1970 is not kept from forgetting for years."""
    seen = hourly(None, 0, 5)
    assert hourly(seen, START, 24).time < DAY * 5
    assert hourly(seen, START, 25).time == START + BELIEVED_MS


def test_a_machine_that_is_off_at_night_forgets_too() -> None:
    seen = None
    for day in range(10):
        seen = hourly(seen, START + day * DAY, 10)
        assert seen.time == START + day * DAY + 9 * HOUR


def test_backwards_at_once() -> None:
    seen = hourly(None, START, 3)
    assert observe(seen, START - DAY, START - DAY).time == START - DAY


def test_two_clocks_that_differ_forget_nothing() -> None:
    """One of them is wrong, and nobody knows which."""
    seen = hourly(None, START, 30)
    for hour in range(60):
        clock = START + 30 * HOUR + hour * HOUR
        seen = observe(seen, clock, clock - LEAP_MS - 1)
    assert seen.time == START + 29 * HOUR


@given(st.lists(st.integers(-40 * DAY, 40 * DAY) | st.integers(0, LEAP_MS), max_size=30))
def test_never_ahead_of_the_clock_and_never_in_leaps(steps: list[int]) -> None:
    clock, seen = START, Seen(START, START, START)
    for step in steps:
        clock += step
        after = observe(seen, clock, clock)
        assert after.time <= clock
        believed = clock - after.since >= BELIEVED_MS
        assert believed or after.time - seen.time <= 4 * LEAP_MS
        seen = after


async def test_what_was_seen_is_kept(database: Database) -> None:
    watch = Watch(await _database_ms(database))
    begun = await SteadyTime(database, watch).now_ms()
    watch.move(days=31)
    assert await SteadyTime(database, watch).now_ms() == begun
    watch.move(days=-31, seconds=60)
    assert await SteadyTime(database, watch).now_ms() == begun
    watch.move(seconds=60)
    assert await SteadyTime(database, watch).now_ms() == begun + 120_000


@pytest.mark.parametrize(("ahead", "warned"), [(0, False), (1500, True), (-3_600_000, True)])
async def test_clocks_that_differ_are_told_of(database: Database, ahead: int, warned: bool) -> None:
    metrics, watch = Metrics(), Watch(await _database_ms(database) + ahead)
    with structlog.testing.capture_logs() as logs:
        await measure_skew(database, watch, metrics)
    assert [log["log_level"] for log in logs] == ["warning"] * warned
    shown = metrics.registry.get_sample_value("safelight_clock_skew_seconds")
    assert shown == pytest.approx(ahead / 1000, abs=0.9)


async def test_every_process_goes_on_comparing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the database is away now and then."""
    watch, answers = Watch(await _database_ms(database)), iter([True, False, True])

    async def asked(*given: Any) -> float:
        if not next(answers, True):
            raise Unavailable
        return await measure_skew(*given)

    monkeypatch.setattr("safelight.infra.steady.measure_skew", asked)
    clocks = ClockWatch(database, watch, Metrics())
    with structlog.testing.capture_logs() as logs:
        await clocks.start(every=0.01)
        assert logs == []
        watch.move(seconds=300)
        await until(lambda: logs)
        await clocks.stop()
    assert logs[0]["ahead_seconds"] == pytest.approx(300, abs=5)


async def _database_ms(database: Database) -> int:
    now: int = await database.fetchval("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    return now
