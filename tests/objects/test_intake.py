"""A store's news is taken in whole or not at all."""

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from objects import notification_samples as sample
from objects.stores import Watch, deliveries, units_of
from points import points_of
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.queue.jobs import Dead, Done, Job, JobId, Verdict
from safelight.objects.jobs import REJECTED
from safelight.objects.notifications import repo
from safelight.objects.notifications.intake import Intake, IntakeCounts
from safelight.objects.notifications.normalise import TooManyRecords, normalise
from safelight.objects.notifications.notice import Confirmation, Normalised

UNREADABLE = {"colour": "red"}
TOLD_AGAIN = "objects.notifications.tell_again"  # library/test_reconcile.py


def news() -> list[Any]:
    """One record of an organization there is, one thing nobody can read, and a question."""
    body = sample.minio()
    body["Records"][0]["s3"]["object"]["key"] = "acme%2Fcat.jpg"
    return [body, UNREADABLE, sample.sns_confirmation()]


async def forget(db: Database) -> None:
    """What tests before left."""
    await db.execute("DELETE FROM rejected_notices")
    await db.execute("DELETE FROM event_subscriptions")


async def rows(db: Database) -> tuple[int, int, int, int]:
    row = await db.fetchrow(
        "SELECT (SELECT count(*) FROM object_events), (SELECT count(*) FROM rejected_notices), "
        "(SELECT count(*) FROM jobs), (SELECT count(*) FROM event_subscriptions)"
    )
    assert row
    return tuple(row)


async def test_what_may_be_megabytes_is_not_read_on_the_loop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def reading(body: object, prefix: str) -> Normalised:
        readers.append(threading.current_thread())
        return normalise(body, prefix)

    monkeypatch.setattr("safelight.objects.notifications.intake.normalise", reading)
    await forget(database)
    await Intake(units_of(database, Watch())).take(news())
    assert readers
    assert threading.current_thread() not in readers


@pytest.mark.parametrize("point", points_of("objects.notifications.", without=[TOLD_AGAIN]))
async def test_cut_off_nothing_is_kept_and_the_sender_tries_again(
    database: Database, point: str
) -> None:
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await intake.take(news())
    assert await rows(database) == (0, 0, 0, 0)
    assert await intake.take(news()) == IntakeCounts(accepted=1, ignored=1, rejected=1)
    assert await rows(database) == (1, 1, 2, 1)
    [delivery] = await deliveries(database)
    assert delivery["name"] == "cat.jpg"


async def test_a_neighbours_bucket_and_unknown_organizations_are_ignored(
    database: Database,
) -> None:
    body = news()[0]
    other = Intake(units_of(database, Watch()), bucket="another")
    assert await other.take(body) == IntakeCounts(accepted=0, ignored=1, rejected=0)
    body["Records"][0]["s3"]["object"]["key"] = "nobody%2Fcat.jpg"
    intake = Intake(units_of(database, Watch()))
    assert await intake.take(body) == IntakeCounts(accepted=0, ignored=1, rejected=0)
    assert await deliveries(database) == []


async def letters(db: Database) -> list[Any]:
    return await db.fetch("SELECT * FROM jobs WHERE kind = 'objects.rejected' ORDER BY id")


async def redriven(db: Database, letter: Any) -> Verdict:
    job = Job(JobId(letter["id"]), REJECTED, "", letter["payload"], 1, 1)
    return await Intake(units_of(db, Watch())).handle_rejected(job)


async def test_what_is_rejected_is_a_dead_letter_at_once_and_shows_itself(
    database: Database,
) -> None:
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    await intake.take([UNREADABLE, "not\x1bJSON" * 1000])
    first, second = await letters(database)
    assert (first["status"], first["attempts"]) == ("dead", 0)
    assert first["error"]["code"] == "UNKNOWN_SHAPE"
    assert first["payload"]["reason"] == first["error"]["message"]
    assert first["payload"]["body"] == '{"colour": "red"}'
    body = second["payload"]["body"]
    assert body.startswith("not\\x1bJSON")
    assert body.isprintable()
    assert len(body) < 10_000


@pytest.mark.parametrize(
    "key", ["acme/ca\x00t.jpg", "acme/ca\ud800t.jpg", "acme/.\x00", "acme\x00/a"]
)
async def test_a_key_nobody_can_store_is_never_taken_under_another(
    database: Database, key: str
) -> None:
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    assert await intake.take(sample.r2(key=key)) == IntakeCounts(0, 0, 1)
    [letter] = await letters(database)
    assert isinstance(await redriven(database, letter), Dead)
    assert await rows(database) == (0, 1, 1, 0)


async def test_one_that_can_be_read_after_all_is_taken(database: Database) -> None:
    """As after an upgrade that knows another shape; also one the version before left."""
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    await intake.take(UNREADABLE)
    await database.execute("UPDATE rejected_notices SET raw = $1", news()[0])
    [letter] = await letters(database)
    assert await redriven(database, letter) == Done()
    assert len(await deliveries(database)) == 1
    older = {"payload": {"noticeId": letter["payload"]["noticeId"]}, "id": letter["id"]}
    assert await redriven(database, older) == Done()
    gone = {"payload": {"noticeId": 0}, "id": letter["id"]}
    assert await redriven(database, gone) == Done()


async def test_too_many_are_refused_before_anything_is_taken(database: Database) -> None:
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    with pytest.raises(TooManyRecords):
        await intake.take([sample.r2(key=f"acme/{n}.jpg") for n in range(12_000)])
    assert await rows(database) == (0, 0, 0, 0)


async def test_a_question_is_kept_for_a_person(database: Database) -> None:
    await forget(database)
    clock = Watch(1_800_000_000_000)
    intake = Intake(units_of(database, clock))
    asked = sample.sns_confirmation()
    with capture_logs() as logs:
        assert await intake.take(asked) == IntakeCounts(0, 1, 0)
    [line] = [line for line in logs if line["log_level"] == "warning"]
    assert (line["topic"], line["address"]) == (asked["TopicArn"], asked["SubscribeURL"])
    ended = {
        **asked,
        "Type": "UnsubscribeConfirmation",
        "SubscribeURL": "https://sns.example/again",
    }
    await intake.take(ended)
    now = clock.now_ms()
    [kept] = await repo.confirmations(database, now)
    assert kept == Confirmation("UnsubscribeConfirmation", asked["TopicArn"], ended["SubscribeURL"])
    assert await repo.confirmations(database, now + 3 * 86_400_000) == [kept]
    assert await repo.confirmations(database, now + 3 * 86_400_000 + 1) == []


async def test_few_questions_are_kept_and_none_for_long(database: Database) -> None:
    await forget(database)
    clock = Watch(1_800_000_000_000)
    intake = Intake(units_of(database, clock))
    await intake.take([sample.sns_confirmation() | {"TopicArn": f"arn:{n}"} for n in range(50)])
    kept = await repo.confirmations(database, clock.now_ms())
    assert len(kept) == 20
    clock.ms = clock.now_ms() + 3 * 86_400_000 + 1
    await intake.take(sample.sns_confirmation())
    assert await database.fetchval("SELECT count(*) FROM event_subscriptions") == 1


@pytest.mark.parametrize(
    "odd",
    [{"SubscribeURL": "javascript:alert(1)"}, {"SubscribeURL": None}, {"SubscribeURL": "https://a b"},
     {"SubscribeURL": "https://" + "a" * 3000}, {"TopicArn": "\x1b[2J"}, {"TopicArn": 7}],
)  # fmt: skip
async def test_a_question_nobody_could_follow_is_ignored(
    database: Database, odd: dict[str, Any]
) -> None:
    await forget(database)
    intake = Intake(units_of(database, Watch()))
    assert await intake.take(sample.sns_confirmation() | odd) == IntakeCounts(0, 1, 0)
    assert await rows(database) == (0, 0, 0, 0)
