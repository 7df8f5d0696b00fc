"""Notifications that are fetched: each kind of queue as it is, and at its worst."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from structlog.testing import capture_logs

from emulators.post_office import (
    SECRET,
    SENT_MS,
    TOKEN,
    Behaviour,
    PostOffice,
    cut,
    drip,
    post_office,
    saying,
    silence,
    turned_away,
)
from objects import notification_samples as sample
from objects.stores import Watch, deliveries, units_of
from safelight.errors import ConfigurationError, Unavailable
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.metrics import Metrics
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, JobId, Nothing, Retry, Verdict
from safelight.objects.jobs import PULL
from safelight.objects.notifications.couriers import cloudflare, sqs
from safelight.objects.notifications.couriers.base import HIDDEN_SECONDS, CourierAway
from safelight.objects.notifications.couriers.registry import COURIERS, open_courier
from safelight.objects.notifications.intake import Intake, IntakeCounts
from safelight.objects.notifications.pull import PullNotices, wait_of
from safelight.settings import load
from safelight.testing.base import open_base
from safelight.testing.hands import Hands

NOW = SENT_MS + 7000
UNREADABLE = {"colour": "red"}


@dataclass
class Pulling:
    office: PostOffice
    db: Database
    intake: Intake
    pull: PullNotices
    metrics: CollectorRegistry

    async def run(self, waits: int = 0) -> Verdict:
        return await self.pull.handle(Job(JobId(1), PULL, "", {}, 1, 1, waits=waits))

    def counted(self, outcome: str) -> float | None:
        name = "safelight_notifications_total"
        return self.metrics.get_sample_value(name, {"outcome": outcome})

    async def names(self) -> list[str]:
        """Of what was recorded, in its order."""
        return [delivery["name"] for delivery in await deliveries(self.db)]

    async def letters(self) -> list[str]:
        dead = "SELECT error FROM jobs WHERE status = 'dead' ORDER BY id"
        return [row["error"]["code"] for row in await self.db.fetch(dead)]


@asynccontextmanager
async def pulling(kind: str, database: Database) -> AsyncIterator[Pulling]:
    await database.execute("DELETE FROM rejected_notices")
    clock, metrics = Watch(NOW), Metrics()
    async with post_office(kind) as office:
        intake = Intake(units_of(database, clock), bucket="pictures")
        pull = PullNotices(open_courier(office.address, {}, clock), intake, clock, metrics)
        yield Pulling(office, database, intake, pull, metrics.registry)
        await pull.close()


@pytest.fixture(params=COURIERS)
async def world(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Pulling]:
    async with pulling(request.param, database) as found:
        yield found


def news(name: str = "cat.jpg", **more: Any) -> dict[str, Any]:
    return sample.r2(key=f"acme/{name}", **more)


@contextmanager
def impatient(how: str) -> Iterator[None]:
    """With a courier that does not answer in time."""
    with pytest.MonkeyPatch.context() as patch:
        if how in {"silent", "dripping"}:
            patch.setattr(sqs, "_WAIT", 0)
            for module in (cloudflare, sqs):
                patch.setattr(module, "_SECONDS", 0.4)
        yield


# What is there


async def test_what_waits_is_recorded_and_taken_away(world: Pulling) -> None:
    world.office.send(news("1.jpg"))
    world.office.send(sample.s3_records(sample.s3(key="acme/2.jpg")))
    world.office.send(sample.sns(sample.s3(key="acme/3.jpg")))
    assert await world.run() == Done()
    assert sorted(await world.names()) == ["1.jpg", "2.jpg", "3.jpg"]
    assert world.office.waiting == []
    assert [world.counted(name) for name in ("received", "acked", "lost")] == [3, 3, 0]


async def test_it_goes_on_while_some_come(world: Pulling) -> None:
    for number in range(120):
        world.office.send(news(f"{number}.jpg"))
    assert await world.run() == Done()
    assert len(await world.names()) == 120
    assert world.office.waiting == []
    asked = [what for what, _ in world.office.asked]
    assert asked[-1] in {"pull", "ReceiveMessage"}  # and found none
    assert len(asked) < 50


async def test_nothing_is_answered_where_nothing_waits(world: Pulling) -> None:
    assert await world.run() == Done()
    assert len(world.office.asked) == 1
    assert world.metrics.get_sample_value("safelight_notifications_lag_seconds") == 0


async def test_each_of_them_is_hidden_for_a_while(world: Pulling) -> None:
    world.office.send(news())
    seen: list[float] = []
    world.office.before_answers = lambda: seen.extend(x.visible for x in world.office.waiting)
    await world.run()
    assert seen == [HIDDEN_SECONDS]


async def test_the_lag_is_that_of_the_oldest(world: Pulling) -> None:
    world.office.send(news())
    failpoints.arm("objects.answer_notices", "raise@1")
    with pytest.raises(FailpointError):
        await world.run()
    assert world.metrics.get_sample_value("safelight_notifications_lag_seconds") == 7


async def test_bodies_as_they_were_sent_or_in_base64(database: Database) -> None:
    async with pulling("cloudflare-queue", database) as world:
        world.office.send(news("1.jpg"), "json")
        world.office.send(news("2.jpg"), "text")
        world.office.send(news("3.jpg"), "bytes")
        for number in range(200):
            world.office.send(news(f"x{number}.jpg"))
        failpoints.arm("objects.answer_notices", "raise@1")
        with pytest.raises(FailpointError):
            await world.run()
        assert {"1.jpg", "2.jpg", "3.jpg"} < set(await world.names())
        assert world.metrics.get_sample_value("safelight_notifications_backlog") == 103


# Each has a fate of its own


async def test_one_message_never_decides_anothers_fate(
    world: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good, unreadable, a neighbour's, nobody's, too many, and one that meets a bug of ours."""
    take = world.intake.take

    async def meeting_a_bug(body: object) -> IntakeCounts:
        if "bug.jpg" in sample_text(body):
            raise ZeroDivisionError
        return await take(body)

    monkeypatch.setattr(world.intake, "take", meeting_a_bug)
    good = [news("1.jpg"), news("2.jpg")]
    bad = [UNREADABLE, "no JSON", [0] * 10_001, news("neighbour.jpg") | {"bucket": "another"}]
    world.office.send(good[0])
    for body in bad:
        world.office.send(body)
    bug = world.office.send(news("bug.jpg"))
    world.office.send(good[1])
    with capture_logs() as logs:
        assert await world.run() == Done()
    assert sorted(await world.names()) == ["1.jpg", "2.jpg"]
    assert sorted(await world.letters()) == ["FILE_TOO_LARGE", "UNKNOWN_SHAPE", "UNREADABLE"]
    assert world.office.waiting == [bug]
    assert bug.visible == wait_of(1)
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [
        "notification.failed"
    ]
    assert [world.counted(name) for name in ("acked", "retried")] == [6, 1]


def sample_text(body: Any) -> str:
    """What a message holds, out of its envelope."""
    if "Body" in body:
        return str(body["Body"])
    return base64.b64decode(body["body"]).decode()


async def test_what_fails_again_and_again_becomes_a_dead_letter(
    world: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the courier gives it up, and nobody ever saw it."""
    take = world.intake.take

    async def broken(body: object) -> IntakeCounts:
        raise ZeroDivisionError(body)

    monkeypatch.setattr(world.intake, "take", broken)
    letter = world.office.send(news())
    for attempt in (1, 2):
        assert await world.run() == Done()
        assert (letter.attempts, await world.letters()) == (attempt, [])
        world.office.advance(wait_of(attempt))
    assert await world.run() == Done()
    assert world.office.waiting == []
    assert await world.letters() == ["ZeroDivisionError"]
    assert await world.names() == []
    monkeypatch.setattr(world.intake, "take", take)


@pytest.mark.parametrize("error", [Unavailable(), ConnectionResetError(), TimeoutError()])
async def test_while_the_database_is_away_they_come_again(
    world: Pulling, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    take = world.intake.take

    async def away(body: object) -> IntakeCounts:
        raise error

    monkeypatch.setattr(world.intake, "take", away)
    letters = [world.office.send(news(f"{number}.jpg")) for number in range(3)]
    for _ in range(4):  # however often: it is not their fault
        with pytest.raises(type(error)):
            await world.run()
        assert world.office.waiting == letters
        world.office.advance(1000)
    assert await world.letters() == []
    monkeypatch.setattr(world.intake, "take", take)
    assert await world.run() == Done()
    assert sorted(await world.names()) == ["0.jpg", "1.jpg", "2.jpg"]


async def test_one_that_takes_too_long_comes_again(
    world: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = world.intake.take

    async def slow(body: object) -> IntakeCounts:
        if "slow.jpg" in sample_text(body):
            await asyncio.Event().wait()
        return await take(body)

    monkeypatch.setattr(world.intake, "take", slow)
    monkeypatch.setattr("safelight.objects.notifications.pull._TAKE_SECONDS", 0.2)
    late = world.office.send(news("slow.jpg"))
    world.office.send(news("quick.jpg"))
    with pytest.raises(TimeoutError):
        await world.run()
    assert await world.names() == ["quick.jpg"]
    assert world.office.waiting == [late]


# Deaths, and answers that are not taken


@pytest.mark.parametrize("point", ["objects.receive_notices", "objects.answer_notices"])
async def test_a_death_on_the_way_loses_none(world: Pulling, point: str) -> None:
    letter = world.office.send(news())
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await world.run()
    assert armed.passes
    assert world.office.waiting == [letter]
    assert world.counted("acked") is None
    world.office.advance(HIDDEN_SECONDS)
    assert await world.run() == Done()
    assert set(await world.names()) == {"cat.jpg"}
    assert world.office.waiting == []


@pytest.mark.parametrize(
    "point", ["objects.notifications.add_events", "objects.notifications.add_rejected"]
)
async def test_what_was_not_committed_is_not_answered_as_done(world: Pulling, point: str) -> None:
    letter = world.office.send([news(), UNREADABLE])
    failpoints.arm(point, "raise@1")
    assert await world.run() == Done()
    assert (await world.names(), await world.letters()) == ([], [])
    assert world.office.waiting == [letter]
    world.office.advance(wait_of(1))
    assert await world.run() == Done()
    assert (await world.names(), await world.letters()) == (["cat.jpg"], ["UNKNOWN_SHAPE"])


async def test_an_answer_after_its_lease_has_ended_is_counted(world: Pulling) -> None:
    letter = world.office.send(news())

    def too_late() -> None:
        world.office.advance(HIDDEN_SECONDS)
        world.office.before_answers = lambda: None

    world.office.before_answers = too_late
    assert await world.run() == Done()
    assert letter.attempts == 2
    assert world.office.waiting == []
    assert [world.counted(name) for name in ("received", "acked", "lost")] == [2, 2, 1]


async def test_an_answer_to_a_batch_that_is_taken_in_part(world: Pulling) -> None:
    letters = [world.office.send(news(f"{number}.jpg")) for number in range(5)]
    world.office.refused = {letters[1].number, letters[3].number}
    assert await world.run() == Done()
    assert world.office.waiting == [letters[1], letters[3]]
    assert world.counted("lost") == 2
    world.office.refused = set()
    world.office.advance(HIDDEN_SECONDS)
    assert await world.run() == Done()
    assert world.office.waiting == []


async def test_doubled_and_out_of_order(world: Pulling) -> None:
    world.office.twice = world.office.backwards = True
    for number in range(4):
        world.office.send(news(f"{number}.jpg"))
    assert await world.run() == Done()
    assert sorted(set(await world.names())) == [f"{number}.jpg" for number in range(4)]
    assert world.office.waiting == []
    assert world.counted("received") == 8


async def test_whoever_fetched_dies_and_another_one_goes_on(world: Pulling) -> None:
    """There is one at a time, and what it had in hand is there again."""
    url = world.db.url
    async with open_base(load(), url, [PULL]) as here, open_base(load(), url, [PULL]) as there:
        first, second = (
            Hands(base.queue, [Handler(PULL, world.pull.handle)]) for base in (here, there)
        )
        for _ in range(3):  # ticks of the schedule
            await here.queue.enqueue(here.db, PULL, Nothing(), organization=None, key=PULL.name)
        world.office.send(news())
        job = await first.claim(PULL.name)
        assert job
        assert await second.claim(PULL.name) is None
        failpoints.arm("objects.answer_notices", "raise@1")
        outcome = await first.run(job)
        await first.end_leases()
        world.office.advance(HIDDEN_SECONDS)
        assert await second.work() == 1
        await first.write(job, outcome)  # refused: it is somebody else's
        assert world.office.waiting == []
        left = "SELECT count(*) FROM jobs WHERE kind = $1"
        assert await world.db.fetchval(left, PULL.name) == 0


async def test_the_job_waits_as_long_as_the_courier_asks(world: Pulling) -> None:
    async with open_base(load(), world.db.url, [PULL]) as base:
        hands = Hands(base.queue, [Handler(PULL, world.pull.handle)])
        await base.queue.enqueue(base.db, PULL, Nothing(), organization=None)
        world.office.next(turned_away(429, "90"))
        assert await hands.work() == 1
        row = await base.db.fetchrow(
            "SELECT status, attempts, waits, run_at - now() AS wait, error FROM jobs"
        )
        assert row
        assert (row["status"], row["attempts"], row["waits"]) == ("delayed", 0, 1)
        assert row["wait"].total_seconds() > 60
        assert row["error"]["code"] == "NOTIFICATIONS_AWAY"
        assert "answered 429" in row["error"]["message"]


# A courier that is away


AWAY: dict[str, Behaviour] = {
    "busy": turned_away(429, "17"),
    "broken": turned_away(500),
    "down": turned_away(503, "17"),
    "not ours": turned_away(403),
    "elsewhere": turned_away(302),
    "no JSON": saying(b"<html>Sign in to this network</html>"),
    "a list": saying([1]),
    "no success": saying({"success": False, "Messages": {"a": 1}}),
    "no messages": saying({"success": True, "result": {"messages": 7}, "Messages": 7}),
    "a nest": saying(b"[" * 100_000),
    "cut": cut,
    "silent": silence,
    "dripping": drip,
}


@pytest.mark.parametrize("how", AWAY)
async def test_a_courier_that_is_away_is_waited_for(world: Pulling, how: str) -> None:
    world.office.send(news())
    world.office.next(AWAY[how])
    with capture_logs() as logs, impatient(how):
        verdict = await world.run()
    assert isinstance(verdict, Retry)
    assert isinstance(verdict.error, CourierAway)
    assert (verdict.away, verdict.error.code) == (True, "NOTIFICATIONS_AWAY")
    assert verdict.after == (17 if how in {"busy", "down"} else None)
    [line] = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "notifications cannot be fetched"
    assert await world.letters() == []
    assert TOKEN not in f"{logs}{verdict}"
    assert SECRET not in f"{logs}{verdict}"

    world.office.next(AWAY[how])
    with capture_logs() as logs, impatient(how):
        assert isinstance(await world.run(waits=1), Retry)
    assert [line["event"] for line in logs] == []  # it was said when it began
    with capture_logs() as logs:
        assert await world.run(waits=2) == Done()
    assert logs[0]["event"] == "notifications are fetched again"
    assert await world.names() == ["cat.jpg"]


@pytest.mark.parametrize("how", AWAY)
async def test_an_answer_that_does_not_arrive_brings_them_again(world: Pulling, how: str) -> None:
    """They are recorded, so what they say again changes nothing."""
    letter = world.office.send(news())
    armed = failpoints.observe("objects.answer_notices")
    world.office.next(world.office.handle_well, AWAY[how])
    with impatient(how):
        verdict = await world.run()
    assert armed.passes == 1
    if how in {"a list", "no messages"} and verdict == Done():
        return  # the dialect has no such answer to a batch
    assert world.office.waiting == [letter]
    world.office.advance(HIDDEN_SECONDS)
    assert await world.run(waits=1) == Done()
    assert world.office.waiting == []
    assert await world.names() == ["cat.jpg", "cat.jpg"]


async def test_a_courier_nobody_answers_for(world: Pulling) -> None:
    assert world.office.wire
    closed = world.office.address.replace(f":{world.office.wire.port}", ":1")
    courier = open_courier(closed, {}, Watch(NOW))
    pull = PullNotices(courier, world.intake, Watch(NOW), Metrics())
    verdict = await pull.handle(Job(JobId(1), PULL, "", {}, 1, 1))
    assert isinstance(verdict, Retry)
    assert "could not be reached" in str(verdict.error)


async def test_messages_without_a_receipt_are_left(world: Pulling) -> None:
    """Nobody could answer for them; those beside them are taken."""
    odd = [None, 7, {}, {"lease_id": 3, "ReceiptHandle": []}]
    good = {"lease_id": "r", "ReceiptHandle": "r", "body": None, "Body": None, "attempts": "x"}
    found = {"messages": [*odd, good], "message_backlog_count": "many"}
    world.office.next(saying({"success": True, "result": found, "Messages": [*odd, good]}))
    assert await world.run() == Done()
    assert await world.letters() == ["UNKNOWN_SHAPE"]
    assert world.counted("received") == 1


# Settings


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("kafka://a/b", "cloudflare-queue:// or sqs://"),
        ("sqs://a", "sqs://ACCOUNT/QUEUE"),
        ("sqs:///b", "sqs://ACCOUNT/QUEUE"),
        ("sqs://a/b/c?region=r", "sqs://ACCOUNT/QUEUE"),
        ("https://sqs.eu-central-1.amazonaws.com/1/b", "sqs://"),
        ("sqs://a/b", "AWS_REGION"),
        ("sqs://a/b?region=r&access_key_id=x", "AWS_SECRET_ACCESS_KEY"),
        ("sqs://a/b?region=r&token=x", "no token"),
        ("sqs://a/b?region=r&access_key_id=x&secret_access_key=y&endpoint=host", "https://host"),
        (
            "sqs://a/b?region=r&access_key_id=x&secret_access_key=y&endpoint=http://h/p",
            "https://host",
        ),
        ("cloudflare-queue://a/b?token=t&endpoint=https://me:hidden@host", "https://host"),
        ("cloudflare-queue://a/b", "token="),
        ("cloudflare-queue://a/b?token=ü", "token="),
        ("cloudflare-queue://a/b?region=r", "no region"),
        ("cloudflare-queue://a/b?token=hidden&endpoint=ftp://x", "https://host"),
    ],
)
def test_an_address_that_cannot_work_is_refused(address: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match="SAFELIGHT_NOTIFICATIONS_URL") as refused:
        open_courier(address, {}, Watch(NOW))
    assert words in refused.value.message
    assert "hidden" not in refused.value.message


async def test_what_the_address_does_not_say_the_environment_may() -> None:
    async with post_office("sqs") as office:
        assert office.wire
        aws = {
            "access_key_id": "key",
            "secret_access_key": SECRET,
            "default_region": "eu-central-1",
        }
        address = f"sqs://123456789012/pictures?endpoint={office.wire.url}"
        courier = open_courier(address, aws, Watch(NOW))
        office.send(news())
        assert len((await courier.receive()).parcels) == 1
        await courier.close()


def test_waits_grow_to_a_quarter_of_an_hour() -> None:
    assert [wait_of(attempts) for attempts in (0, 1, 2, 3, 7, 8, 10**6)] == [
        10, 10, 20, 40, 640, 900, 900,
    ]  # fmt: skip


def test_no_process_wide_metrics() -> None:
    assert REGISTRY.get_sample_value("safelight_notifications_lag_seconds") is None
