"""What operators and admins see of what gave up, is stuck, waits and works, and what they do about it."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inprocess import Application, application
from safelight.accounts.access import Role
from safelight.accounts.members import Members
from safelight.admin.health.facts import DatabaseFacts
from safelight.infra.injected import Clock
from safelight.infra.queue.queue import Queue
from safelight.settings import Settings, load
from safelight.submissions.jobs import PROCESS
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.repo import count_incident
from safelight.testing.waiting import until
from safelight.web.health.checks import CheckState, HealthReadings, checks
from safelight.web.operations.shown import Disk
from web.reading import as_role, browser, read, words
from web.test_submission_pages import change, submitted

QUEUE, HEALTH, OWN = "/admin/queue", "/admin/health", "/app/default/inspector/dead-letters"
RUN, DRAW = "classification.run", "classification.draw"
LATE = {"code": "MODEL_ERROR", "message": "The model <slept>."}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Without a worker: nothing moves by itself."""
    async with application(database_url, tmp_path) as app:
        yield app


async def dead(
    app: Application, kind: str = RUN, organization: str = "default", **more: Any
) -> int:
    job: int = await app.db.fetchval(
        """
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, error,
                          died_at, attempts)
        VALUES ($1, $2, '', $3, $4, 0, $5, now() + interval '1 hour', $6,
                CASE WHEN $5 = 'dead' THEN now() END, 3) RETURNING id
        """,
        kind,
        organization,
        more.get("payload", {"name": "a <b>.jpg", "idempotencyKey": "x", "run": 1}),
        more.get("key"),
        more.get("status", "dead"),
        more.get("error", LATE),
    )
    return job


async def left(app: Application) -> list[int]:
    return [one.id for one in await app.registry.get(Queue).dead_letters.page()]


async def test_what_waits_and_what_fails(app: Application) -> None:
    address, now = await submitted(app, title="A <boat>"), app.registry.get(Clock).now_ms()
    for kind in (FailureClass.SCAN_TIMEOUT, FailureClass.SCAN_TIMEOUT, FailureClass.MODEL_ERROR):
        async with app.db.transaction() as connection:
            await count_incident(connection, kind, 55_000, now)
    await dead(app, status="delayed")
    await app.db.execute("UPDATE jobs SET waits = 2 WHERE kind = $1", RUN)
    await app.db.execute(
        """
        INSERT INTO reclassifications (id, organization, asked_by, status, place_time, place_name,
                                       total, done, failed, created_at)
        VALUES ('rcl_1', 'default', '{}', 'running', 1, '', 5000, 1200, 3, 1)
        """
    )
    async with browser(app) as client:
        page = words(await read(client, QUEUE))
        assert re.search(r"submissions\.process 1 0 0 0 \d+ s", page)
        assert "classification.run : 1 waits for what is away" in page
        assert "and spends no attempt : The model <slept>." in page.replace("attempt:", "attempt :")
        assert "kinds with nothing to do" in page
        assert "default · 1,203 of 5,000 images, 3 of them without a label" in page
        assert "Too slow" in page
        assert " 2 55 s " in page
        assert "No worker is there" in page
        assert "Disk free" in page
        await app.db.execute("DELETE FROM jobs WHERE kind = $1", PROCESS.name)
        await change(app, address, updated_at=now - 600_000)
        stuck = words(await read(client, QUEUE))
        assert "A <boat> Received default · stuck for 10 min" in stuck
    async with await as_role(app, Role.ADMIN) as admin:
        await read(admin, QUEUE, 403)
        await read(admin, HEALTH, 403)


async def test_a_stuck_one_is_tried_now_and_given_up(app: Application) -> None:
    address, now = await submitted(app), app.registry.get(Clock).now_ms()
    submission = address.rpartition("/")[2]
    verbs = f"{QUEUE}/submissions/{submission}"
    async with browser(app) as client, await as_role(app, Role.ADMIN) as admin:
        early = await client.post(f"{verbs}/try")
        assert (early.status_code, "not stuck any more" in words(early.text)) == (409, True)
        await app.db.execute("DELETE FROM jobs WHERE kind = $1", PROCESS.name)
        await change(app, address, updated_at=now - 600_000)
        assert (await admin.post(f"{verbs}/try")).status_code == 403
        assert f"{verbs}/try" in await read(client, QUEUE)
        assert (await client.post(f"{verbs}/try")).status_code == 303
        jobs = await app.db.fetch("SELECT key FROM jobs WHERE kind = $1", PROCESS.name)
        assert [job["key"] for job in jobs] == [submission]
        again = await client.post(f"{verbs}/give-up")
        assert (again.status_code, "in the queue already" in words(again.text)) == (409, True)
        await app.db.execute("DELETE FROM jobs WHERE kind = $1", PROCESS.name)
        assert (await client.post(f"{verbs}/give-up")).status_code == 303
        page = words(await read(client, address))
        assert "Rejected" in page
        assert "whoever runs this server ended it" in page
        assert (await client.post(f"{QUEUE}/submissions/sub_none/try")).status_code == 404


async def test_letters_are_grouped_by_kind_and_code(app: Application) -> None:
    for _ in range(27):
        await dead(app)
    other = await dead(app, error={"code": "CHILD_DIED", "message": "It died."})
    drawn = await dead(app, kind=DRAW)
    group = f"?kind={RUN}&code=MODEL_ERROR"
    async with browser(app) as client:
        page = words(await read(client, QUEUE))
        assert "Finding its label 27 The model <slept>." in page
        assert "Finding its label 1 It died." in page
        assert "Drawing its thumbnail 1 The model <slept>." in page
        assert "Redrive everything…" in page
        alone = await read(client, QUEUE + group)
        assert ("It died." in alone, alone.count("Redrive</button>")) == (False, 25)
        more = re.search(r'rel="next" href="([^"]+)"', alone)
        assert more
        older = await read(client, more[1].replace("&amp;", "&"))
        assert older.count("Redrive</button>") == 2

        answer = await client.post(f"{QUEUE}/dead-letters/redrive{group}")
        page = words(await read(client, answer.headers["location"]))
        assert "27 redriven, 0 of those remain." in page
        assert await left(app) == [drawn, other]
        answer = await client.post(f"{QUEUE}/dead-letters/discard?kind={RUN}&code=CHILD_DIED")
        assert answer.headers["location"].endswith("?discarded=1&remaining=0")
        assert await left(app) == [drawn]
        await client.post(f"{QUEUE}/dead-letters/discard")
        assert await left(app) == []
        gone = await client.post(f"{QUEUE}/dead-letters/{drawn}/redrive")
        assert (gone.status_code, "no such dead letter" in words(gone.text)) == (404, True)
        assert (await client.post(f"{QUEUE}/dead-letters/{2**70}/discard")).status_code == 404


async def test_an_organization_sees_its_own(app: Application) -> None:
    await app.registry.get(Members).make_organization("acme")
    mine, foreign = await dead(app), await dead(app, organization="acme")
    async with (
        await as_role(app, Role.ADMIN) as admin,
        await as_role(app, Role.APPROVER) as approver,
    ):
        await read(approver, OWN, 403)
        page = words(await read(admin, OWN))
        assert "Finding its label 1 The model <slept>." in page
        assert (await admin.post(f"{OWN}/{foreign}/redrive")).status_code == 404
        assert (await admin.post(f"{OWN}/{foreign}/discard")).status_code == 404
        assert (await admin.post(f"{OWN}/{mine}/redrive")).status_code == 303
        again = await admin.post(f"{OWN}/{mine}/redrive")
        assert (again.status_code, "redriven already" in words(again.text)) == (409, True)
        await dead(app)
        answer = await admin.post(f"{OWN}/redrive")
        assert "1 redriven" in words(await read(admin, answer.headers["location"]))
        await dead(app)
        await admin.post(f"{OWN}/discard?kind={RUN}&code=MODEL_ERROR")
        assert "Nothing gave up" in words(await read(admin, OWN))
    assert await left(app) == [foreign]


async def test_schedules_that_do_not_run(app: Application) -> None:
    await app.db.execute(
        """
        INSERT INTO job_schedules (name, kind, node, every_seconds, next_at) VALUES
            ('library.reconcile', 'library.reconcile', '', 600, now() + interval '5 minutes'),
            ('quotas.fold', 'quotas.fold', '', 60, now() - interval '10 minutes'),
            ('admin.upkeep', 'admin.upkeep', '', 60, now()),
            ('ingest.sweep@gone', 'ingest.sweep', 'gone', 60, now() - interval '1 day')
        """
    )
    await dead(app, "library.reconcile", "", payload={}, key="library.reconcile")
    async with browser(app) as client:
        page = words(await read(client, QUEUE))
    assert "Comparing store and library every 10 min A run of it gave up after 3 attempts." in page
    assert "Adding up what organizations use every 1 min It should have begun 10 min" in page
    assert "Keeping house every" not in page
    assert "left lying every" not in page, "its machine is told of as missing, or is gone"


async def test_with_a_worker_nothing_needs_anybody(database_url: str, tmp_path: Path) -> None:
    async with application(database_url, tmp_path, worker=True) as app, browser(app) as client:

        async def calm() -> bool:
            return "Nothing needs you." in words((await client.get(QUEUE)).text)

        await until(calm)
        page = words(await read(client, QUEUE))
        assert re.search(r"Workers \S+ (Ready|At work) version [\d.]+ · started \d+ s ago", page)
        health = words(await read(client, HEALTH))
        assert re.search(r"Database PostgreSQL \d+[^ ]*, of your own, [\d.]+ MB\. Fine", health)
        assert "1 worker can be seen. Fine" in health
        assert "Images are labelled by lite0" in health


READINGS = HealthReadings(
    database=DatabaseFacts("17.2", 9_000_000, 20, 100),
    pool=3,
    store=True,
    engine=True,
    workers=2,
    unprotected=[],
    skew=0.2,
    disk=Disk(90, 100),
    differences={},
    confirmations=0,
    forwarded=False,
)


def settings(**values: Any) -> Settings:
    return load({"public_url": "https://a.example", **values})


def wrong(found: HealthReadings, given: Settings) -> list[str]:
    """The titles of what should be looked at; each says what helps."""
    wanting = [one for one in checks(found, given) if one.state is CheckState.LOOK]
    assert all(one.mend for one in wanting)
    return [one.title for one in wanting]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"database": None}, ["Database"]),
        ({"database": DatabaseFacts("17.2", 1, 90, 100)}, ["Connections"]),
        ({"store": False}, ["Object store"]),
        ({"engine": False}, ["Workers"]),
        ({"workers": 0}, ["Workers"]),
        ({"unprotected": ["no new privileges"]}, ["Protection from images"]),
        ({"skew": -3.0}, ["Clock"]),
        ({"skew": None, "disk": None}, []),
        ({"disk": Disk(5, 100)}, ["Disk"]),
        ({"differences": {"lost_events": 2}}, ["Store and library"]),
        ({"confirmations": 1}, ["Events of a bucket"]),
        ({"forwarded": True}, ["Proxies"]),
    ],
)
def test_what_is_measured_is_judged(change: dict[str, Any], expected: list[str]) -> None:
    assert wrong(replace(READINGS, **change), settings()) == expected


def test_what_is_set_is_judged() -> None:
    assert wrong(READINGS, settings(public_url="http://a.example")) == ["Public address"]
    assert wrong(READINGS, settings(trusted_proxies="*")) == ["Proxies"]
    assert wrong(replace(READINGS, forwarded=True), settings(trusted_proxies="10.0.0.1")) == []
    bucket = settings(object_store_url="s3://b?endpoint=http://h&region=r", events_token="e" * 40)
    found = {one.title: one.words for one in checks(replace(READINGS, store=False), bucket)}
    assert found["Object store"] == "Originals are in a bucket. It does not answer."
    assert "whoever has the token" in found["Events of a bucket"]


async def test_pictures_are_for_members_only(app: Application) -> None:
    """An operator who belongs to another organization is told names, and shown nothing."""
    await app.registry.get(Members).make_organization("acme")
    await dead(app, organization="acme")
    async with browser(app) as client:
        page = await read(client, QUEUE)
    assert "It is about" in page
    assert "/app/acme/" not in page
