"""What the statements of quotas count and what they leave alone: rows that differ in one thing."""

import pytest

from holding import waits
from safelight.errors import SafelightError
from safelight.infra.db import Connection, Database
from safelight.quotas import repo
from safelight.quotas.lifecycle import Meter, Quota, QuotaExceeded, QuotaUsedUp

UPLOADS, BYTES, DAILY = Meter.UPLOADS, Meter.STORED_BYTES, Meter.GENERATIONS
MINUTE, DAY = 60_000, 86_400_000
NOON = 1_700_000_000_000 // DAY * DAY + DAY // 2


async def charge(db: Database, organization: str, meter: Meter, amount: int, now: int) -> None:
    async with db.transaction() as connection:
        await repo.charge(connection, organization, meter, amount, now)


async def quota(db: Database, meter: Meter, organization: str = "acme", now: int = NOON) -> Quota:
    [found] = [each for each in await repo.quotas(db, organization, now) if each.meter is meter]
    return found


async def used(db: Database, meter: Meter, organization: str = "acme", now: int = NOON) -> int:
    return (await quota(db, meter, organization, now)).used


async def change(db: Database, organization: str | None, amount: int) -> None:
    await db.execute("SELECT quota_change($1, $2)", organization, amount)


async def test_each_organization_and_meter_has_its_own_count(database: Database) -> None:
    await charge(database, "acme", UPLOADS, 1, NOON)
    await charge(database, "acme", UPLOADS, 2, NOON)
    await charge(database, "acme", DAILY, 10, NOON)
    await charge(database, "globex", UPLOADS, 100, NOON)
    shown = {each.meter: each.used for each in await repo.quotas(database, "acme", NOON)}
    assert shown == {UPLOADS: 3, DAILY: 10, BYTES: 0, Meter.SUBMISSIONS: 0}


async def test_an_own_limit_stands_over_the_instances(database: Database) -> None:
    await repo.put_limits(database, "", {UPLOADS: 5, DAILY: 7})
    await repo.put_limits(database, "acme", {UPLOADS: 9, DAILY: None})
    await repo.put_limits(database, "globex", {UPLOADS: 1, DAILY: 1})
    found = {each.meter: (each.most, each.own) for each in await repo.quotas(database, "acme", 0)}
    assert found[UPLOADS] == (9, True)
    assert found[DAILY] == (7, False)
    assert found[BYTES] == (None, False)
    await repo.put_limits(database, "acme", {UPLOADS: 0})
    assert ((await quota(database, UPLOADS)).most, (await quota(database, UPLOADS)).own) == (
        None, True,
    )  # fmt: skip
    await repo.put_limits(database, "acme", {UPLOADS: None})
    assert (await quota(database, UPLOADS)).most == 5
    assert (await quota(database, UPLOADS, "globex")).most == 1


async def test_what_does_not_fit_is_refused_and_not_counted(database: Database) -> None:
    await repo.put_limits(database, "acme", {DAILY: 10})
    await charge(database, "acme", DAILY, 9, NOON)
    with pytest.raises(QuotaUsedUp) as no:
        await charge(database, "acme", DAILY, 2, NOON)
    assert no.value.retry_after == DAY // 2000
    await charge(database, "acme", DAILY, 1, NOON)
    assert await used(database, DAILY) == 10
    await charge(database, "globex", DAILY, 100, NOON)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (NOON + MINUTE - 1, 6),
        (NOON + MINUTE, 1),
        (NOON - 1, 6),  # somebody's clock is a little behind: the minute goes on
        (NOON - MINUTE - 1, 1),  # or the one before was ahead
        (NOON + 5 * MINUTE, 1),
    ],
)
async def test_a_minute_ends(database: Database, now: int, expected: int) -> None:
    await charge(database, "acme", UPLOADS, 5, NOON)
    await charge(database, "acme", UPLOADS, 1, now)
    assert await used(database, UPLOADS, now=now) == expected


async def test_what_is_shown_is_of_this_minute(database: Database) -> None:
    await charge(database, "acme", UPLOADS, 5, NOON)
    shown = await quota(database, UPLOADS, now=NOON + 90_000)
    assert (shown.used, shown.resets_at) == (0, NOON + 2 * MINUTE)


async def test_changes_are_added_up_once_and_for_their_organization(database: Database) -> None:
    await change(database, "acme", 100)
    await change(database, "acme", -30)
    await change(database, "globex", 7)
    await change(database, None, 1000)
    await change(database, "acme", 0)
    assert await database.fetchval("SELECT count(*) FROM quota_changes") == 3
    assert await used(database, BYTES) == 70
    await database.execute("SELECT quota_fold('acme')")
    assert await database.fetchval("SELECT organization FROM quota_changes") == "globex"
    for _ in range(2):
        await repo.fold(database)
    assert await database.fetchval("SELECT count(*) FROM quota_changes") == 0
    assert (await used(database, BYTES), await used(database, BYTES, "globex")) == (70, 7)
    assert (await quota(database, BYTES)).resets_at is None


async def test_an_upload_counts_what_was_deleted(database: Database) -> None:
    upload = "SELECT quota_upload('acme', 60, $1)"
    await repo.put_limits(database, "acme", {BYTES: 100})
    await database.execute(upload, NOON)
    with pytest.raises(QuotaExceeded):
        await _refused(database, upload)
    assert await used(database, UPLOADS) == 1
    await change(database, "acme", -60)
    await database.execute(upload, NOON)
    assert (await used(database, BYTES), await used(database, UPLOADS)) == (60, 2)


async def test_one_charge_waits_for_another_but_no_change_does(database: Database) -> None:
    async def charges(connection: Connection) -> None:
        await repo.charge(connection, "acme", UPLOADS, 1, NOON)

    async def charges_other(connection: Connection) -> None:
        await repo.charge(connection, "acme", DAILY, 1, NOON)

    async def uploads(connection: Connection) -> None:
        await connection.execute("SELECT quota_upload('acme', 1, 1)")

    async def changes(connection: Connection) -> None:
        await connection.execute("SELECT quota_change('acme', 5)")

    assert await waits(database, charges, charges)
    assert not await waits(database, charges, charges_other)
    await change(database, "acme", 5)
    assert not await waits(database, uploads, changes)
    assert not await waits(database, changes, uploads)


async def _refused(db: Database, statement: str) -> None:
    try:
        await db.execute(statement, NOON)
    except Exception as error:
        no: SafelightError | None = repo.refused(error)  # type: ignore[arg-type]  # the database's
        assert no
        raise no from error
