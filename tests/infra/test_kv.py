"""Values with an end, on a clock the test holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from points import points_of
from safelight.infra import failpoints, kv
from safelight.infra.db import Connection, Database

NOW = 1_700_000_000_000


async def test_a_value_is_there_until_its_end(database: Database) -> None:
    await kv.put(database, "k", {"a": [1, None]}, now=NOW, ttl_ms=1000)
    assert await kv.get(database, "k", now=NOW + 999) == {"a": [1, None]}
    assert await kv.get(database, "k", now=NOW + 1000) is None
    assert await kv.get(database, "other", now=NOW) is None


async def test_without_an_end_it_stays_until_deleted(database: Database) -> None:
    await kv.put(database, "k", "v", now=NOW)
    assert await kv.get(database, "k", now=NOW * 2) == "v"
    await kv.delete(database, "k")
    await kv.delete(database, "k")
    assert await kv.get(database, "k", now=NOW) is None


async def test_put_replaces_value_and_end(database: Database) -> None:
    await kv.put(database, "k", 1, now=NOW, ttl_ms=10)
    await kv.put(database, "k", 2, now=NOW, ttl_ms=99)
    assert await kv.get(database, "k", now=NOW + 50) == 2


async def test_it_takes_part_in_the_callers_transaction(database: Database) -> None:
    transaction = database.transaction()
    connection = await transaction.__aenter__()
    await kv.put(connection, "k", 1, now=NOW)
    assert await kv.get(connection, "k", now=NOW) == 1
    await transaction.__aexit__(RuntimeError, RuntimeError(), None)
    assert await kv.get(database, "k", now=NOW) is None


async def test_compare_and_set_needs_what_was_expected(database: Database) -> None:
    assert not await kv.compare_and_set(database, "k", 1, 2, now=NOW)
    assert await kv.compare_and_set(database, "k", None, 1, now=NOW, ttl_ms=10)
    assert not await kv.compare_and_set(database, "k", None, 9, now=NOW)
    assert not await kv.compare_and_set(database, "k", 7, 9, now=NOW)
    assert await kv.compare_and_set(database, "k", 1, {"x": 1}, now=NOW, ttl_ms=20)
    assert not await kv.compare_and_set(database, "k", {"x": 1}, 3, now=NOW + 20)
    assert await kv.compare_and_set(database, "k", None, 4, now=NOW + 20)
    assert await kv.get(database, "k", now=NOW + 20) == 4


async def test_of_many_contenders_one_wins(database: Database) -> None:
    tries = (kv.compare_and_set(database, "k", None, n, now=NOW) for n in range(20))
    assert sum(await asyncio.gather(*tries)) == 1


async def test_no_increment_is_lost(database: Database) -> None:
    amounts = {"count": 1, "totalDurationMs": 250}
    await asyncio.gather(*(kv.increment(database, "tm", amounts, now=NOW) for _ in range(50)))
    assert await kv.get(database, "tm", now=NOW) == {"count": 50, "totalDurationMs": 12_500}


async def test_an_increment_keeps_other_fields_and_starts_anew_after_the_end(
    database: Database,
) -> None:
    await kv.put(database, "k", {"note": "x", "count": 1}, now=NOW, ttl_ms=10)
    assert await kv.increment(database, "k", {"count": 2, "new": -1}, now=NOW, ttl_ms=10) == {
        "note": "x",
        "count": 3,
        "new": -1,
    }
    assert await kv.increment(database, "k", {}, now=NOW, ttl_ms=10) == {
        "note": "x",
        "count": 3,
        "new": -1,
    }
    assert await kv.increment(database, "k", {"count": 5}, now=NOW + 10) == {"count": 5}


async def test_sweep_takes_what_is_past_its_end_and_no_more_than_its_limit(
    database: Database,
) -> None:
    for number in range(5):
        await kv.put(database, f"old:{number}", 1, now=NOW, ttl_ms=number)
    await kv.put(database, "fresh", 1, now=NOW, ttl_ms=1000)
    await kv.put(database, "endless", 1, now=NOW)
    assert await kv.sweep(database, now=NOW + 4, limit=2) == 2
    assert await kv.sweep(database, now=NOW + 4) == 3
    assert await database.fetchval("SELECT count(*) FROM kv") == 2


@given(st.integers(0, 2**50), st.integers(0, 2**40), st.integers(0, 2**41))
def test_an_end_is_now_plus_the_time_to_live(now: int, ttl: int, later: int) -> None:
    end = kv._end(now, ttl)
    assert end is not None
    assert (now + later < end) == (later < ttl)


OPERATIONS: dict[str, Callable[[Connection | Database], Awaitable[object]]] = {
    "kv.put": lambda db: kv.put(db, "k", 2, now=NOW),
    "kv.delete": lambda db: kv.delete(db, "k"),
    "kv.compare_and_set": lambda db: kv.compare_and_set(db, "k", 1, 2, now=NOW),
    "kv.increment": lambda db: kv.increment(db, "k", {"n": 1}, now=NOW),
    "kv.sweep": lambda db: kv.sweep(db, now=NOW + 10),
}


@pytest.mark.parametrize("point", points_of("kv."))
async def test_a_failure_leaves_the_value_as_it_was(database: Database, point: str) -> None:
    first: Any = {"n": 1} if point == "kv.increment" else 1
    await kv.put(database, "k", first, now=NOW, ttl_ms=10)
    failpoints.arm(point, "raise@1")
    with pytest.raises(failpoints.FailpointError):
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO kv VALUES ('beside', '1', NULL)")
            await OPERATIONS[point](connection)
    assert await kv.get(database, "k", now=NOW) == first
    assert await kv.get(database, "beside", now=NOW) is None
    await OPERATIONS[point](database)
    assert await kv.get(database, "k", now=NOW) != first
