"""The answer of the events route is the truth: it counts what is there afterwards, and no more."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inprocess import Application, application
from library.api import EVENTS, EVENTS_TOKEN
from objects import notification_samples as sample
from safelight.infra.queue.jobs import Dead, Job, JobId
from safelight.objects.jobs import REJECTED
from safelight.objects.notifications.intake import Intake

pytestmark = pytest.mark.usefixtures("quiet")
TOKEN = {"authorization": f"Bearer {EVENTS_TOKEN}"}
Json = dict[str, Any]

NAMES = st.text(st.characters(codec=None), max_size=6) | st.sampled_from(
    ["a.jpg", "ca\x00t.jpg", "\ufffd.jpg", "\ud800.jpg", "a/b.jpg", "..", "a b+c%.jpg", "é.jpg"]
)
ORGANIZATIONS = st.sampled_from(["default", "default", "default", "nobody", "system", "ACME", ""])
KEYS = st.tuples(ORGANIZATIONS, NAMES).map("/".join) | NAMES | st.none()
TIMES = st.sampled_from(["2031-01-05T09:07:03.120Z", "2031-01-05T09:07:03Z", "soon", None, 7])
ACTIONS = st.sampled_from(["put", "delete", "read", "\x00", None])
RECORDS = st.tuples(ACTIONS, KEYS, TIMES)
Record = tuple[Any, Any, Any]


def _s3_name(action: Any) -> Any:
    return {"put": "ObjectCreated:Put", "delete": "ObjectRemoved:Delete"}.get(action, action)


def _r2(records: list[Record]) -> Any:
    names = {"put": "PutObject", "delete": "DeleteObject"}
    return [
        {"action": names.get(action, action), "object": {"key": key}, "eventTime": time}
        for action, key, time in records
    ]


def _s3(records: list[Record], source: str = "aws:s3") -> Json:
    return sample.s3_records(*(
        {"eventSource": source, "eventName": _s3_name(action), "eventTime": time,
         "s3": {"object": {"key": key and quote_plus(key, errors="surrogatepass")}}}
        for action, key, time in records
    ))  # fmt: skip


def _minio(records: list[Record]) -> Json:
    return {"EventName": "s3:ObjectCreated:Put", "Key": "k", **_s3(records, "minio:s3")}


def _sns(records: list[Record]) -> Json:
    return sample.sns(_s3(records))


class Route:
    """A server without a worker: what is there is what the route did."""

    def __init__(self, app: Application, client: httpx.AsyncClient) -> None:
        self.app = app
        self.client = client

    async def post(self, body: Any) -> httpx.Response:
        return await self.client.post(EVENTS, content=json.dumps(body), headers=TOKEN)

    async def forget(self) -> None:
        for table in ("jobs", "object_events", "rejected_notices", "event_subscriptions"):
            await self.app.db.execute(f"DELETE FROM {table}")

    async def kept(self) -> tuple[list[str], Counter[tuple[str, str]]]:
        """The keys of events, and the jobs by kind and status."""
        keys = [row["key"] for row in await self.app.db.fetch("SELECT key FROM object_events")]
        jobs = await self.app.db.fetch("SELECT kind, status FROM jobs")
        return keys, Counter((row["kind"], row["status"]) for row in jobs)

    async def redrive_all(self) -> None:
        """Whatever was rejected stays so, for whoever tries it again as it is."""
        intake = self.app.registry.get(Intake)
        rows = await self.app.db.fetch(
            "SELECT id, payload FROM jobs WHERE kind = $1", REJECTED.name
        )
        for row in rows:
            job = Job(JobId(row["id"]), REJECTED, "", row["payload"], 1, 1)
            assert isinstance(await intake.handle_rejected(job), Dead)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def route(runner: asyncio.Runner, database_url: str, tmp_path: Path) -> Iterator[Route]:
    stack = AsyncExitStack()

    async def begin() -> Route:
        values: Json = {"events_token": EVENTS_TOKEN}
        app = await stack.enter_async_context(application(database_url, tmp_path, **values))
        return Route(app, await stack.enter_async_context(app.client(None)))

    yield runner.run(begin())
    runner.run(stack.aclose())


async def is_truth(route: Route, records: list[Record], body: Any) -> None:
    await route.forget()
    answer = await route.post(body)
    assert answer.status_code == 202, answer.text
    told = answer.json()
    assert sum(told.values()) == len(records)
    keys, jobs = await route.kept()
    assert len(keys) == jobs["objects.deliver", "queued"] == told["accepted"]
    assert jobs["objects.rejected", "dead"] == told["rejected"]
    assert sum(jobs.values()) == told["accepted"] + told["rejected"], "work nobody was told of"
    assert not Counter(keys) - Counter(key for _, key, _ in records), "taken under another key"
    await route.redrive_all()
    assert await route.kept() == (keys, jobs)


FORMATS: list[Callable[[list[Record]], Any]] = [_r2, _s3, _minio, _sns]


@pytest.mark.parametrize("written", FORMATS)
def test_whatever_is_sent(
    route: Route, runner: asyncio.Runner, written: Callable[[list[Record]], Any]
) -> None:
    @settings(
        max_examples=30, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.lists(RECORDS, max_size=5))
    def check(records: list[Record]) -> None:
        runner.run(is_truth(route, records, written(records)))

    check()


def test_a_nul_in_a_key(route: Route, runner: asyncio.Runner) -> None:
    records: list[Record] = [("put", "default/ca\x00t.jpg", "2031-01-05T09:07:03Z")]
    runner.run(is_truth(route, records, _r2(records)))


def test_too_many_records_are_refused_whole(route: Route, runner: asyncio.Runner) -> None:
    records = [("put", f"default/{n}.jpg", "2031-01-05T09:07:03Z") for n in range(12_000)]
    answer = runner.run(route.post(_r2(records)))
    assert (answer.status_code, answer.json()["code"]) == (413, "FILE_TOO_LARGE")
    assert "send fewer" in answer.json()["error"]
    assert runner.run(route.kept()) == ([], Counter())


def test_who_has_no_token_is_offered_both_ways(route: Route, runner: asyncio.Runner) -> None:
    answer = runner.run(route.client.post(EVENTS, json=[]))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer, Basic realm="safelight"'


def test_the_operator_sees_what_is_asked_and_what_was_rejected(
    route: Route, runner: asyncio.Runner
) -> None:
    runner.run(route.post([sample.sns_confirmation(), {"colour": "<red>"}]))

    async def look() -> tuple[str, Json]:
        async with route.app.client() as operator:
            page = await operator.get("/admin/queue", headers={"accept": "text/html"})
            letters = await operator.get("/api/v1/admin/dead-letters")
        return page.text, letters.json()["items"][0]

    page, letter = runner.run(look())
    asked = sample.sns_confirmation()
    assert asked["TopicArn"] in page
    assert asked["SubscribeURL"] in page
    assert f'href="{asked["SubscribeURL"]}' not in page, "an address from outside is not a link"
    assert "&lt;red&gt;" in page
    assert letter["payload"]["body"] == '{"colour": "<red>"}'
    assert letter["payload"]["reason"] == letter["error"]["message"]
