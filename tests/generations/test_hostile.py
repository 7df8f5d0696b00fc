"""Bodies that nobody means well, on the routes that take them."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import _clone as clone
from conftest import with_database
from emulators.replicate import SECRET, TOKEN
from generations.cases import NOW, a_generation, a_task
from generations.strange import VENDORS_OFFLINE, keys, likely
from generations.world import SECRET as SECRET_KEY
from generations.world import World, world
from inprocess import application
from safelight.generations.hear import heard
from safelight.generations.lifecycle import TaskStatus, check_moves
from safelight.generations.orders import WebhookAddresses
from safelight.generations.providers.signatures import sign

VENDORS: dict[str, Any] = {
    "runware_api_key": "k", "replicate_api_token": TOKEN, "replicate_webhook_secret": SECRET,
}  # fmt: skip
MODELS = {"runware": "runware:1@1", "replicate": "acme/film", "studio": "studio/aurora"}
JSON = {"content-type": "application/json"}
DEEP = b"[" * 400_000 + b"]" * 400_000

GENERATIONS = [
    (b'{"model": "studio/aurora", "input": ' + DEEP + b"}", 422),
    (DEEP, 422),
    (b'{"model": "m", "input": {"prompt": "' + b"x" * 2**20 + b'"}}', 413),
    (b'{"model": "m", "input": {"n": 1' + b"0" * 5000 + b"}}", 422),
    (b'{"model": "m", "input": {"prompt": "\\ud800"}}', 422),
    (b'{"model": "m", "input": {"\\u0000": 1}}', 422),
    (b'{"model": "m", "input": [], "count": 1e400}', 422),
    (b"\xff\xfe\x00", 422),
    (b"", 422),
]
WEBHOOKS = [(DEEP, 400), (b"x" * (16 * 2**20 + 1), 413), (b"1" * 5000, 400), (b"\xff", 400)]


async def test_bodies_on_the_whole_server(model_url: str, tmp_path: Path) -> None:
    await clone(model_url, "hostile")
    url = with_database(model_url, "hostile")
    async with (
        application(url, tmp_path, secret_key=SECRET_KEY) as app,
        app.client() as client,
    ):
        made = {"model": "studio/aurora", "input": {}, "kind": "video"}
        answer = await client.post("/generations", json=made)
        assert answer.status_code == 202, answer.text
        generation = answer.json()["id"]
        for body, status in GENERATIONS:
            await refused(client, "/generations", body, status)
        addresses = WebhookAddresses(SECRET_KEY, lambda: app.url)
        address = addresses.url("studio", generation, "x")
        for body, status in WEBHOOKS:
            await refused(client, address, body, status)
        for query in ("since=-1", f"since={2**63}", f"until={10**30}", "since=x", "until=1e3"):
            path = f"/api/organizations/default/spending?{query}"
            found = await client.get(path)
            assert (found.status_code, found.json()["code"]) == (422, "INVALID_REQUEST"), query


async def refused(client: httpx.AsyncClient, path: str, body: bytes, status: int) -> None:
    answer = await client.post(path, content=body, headers=JSON)
    assert answer.status_code == status, (path[:20], body[:60], answer.text[:200])
    assert set(answer.json()) == {"error", "code"}


# Webhooks: any body, by somebody who knows the address


def signed(body: bytes) -> dict[str, str]:
    sent = str(int(time.time()))
    return {
        **JSON,
        "webhook-id": "m",
        "webhook-timestamp": sent,
        "webhook-signature": sign(SECRET, "m", sent, body),
    }


async def rows(made: World) -> list[Any]:
    found = await made.db.fetch("SELECT * FROM generation_tasks ORDER BY artifact_id")
    owners = await made.db.fetch("SELECT * FROM generations_inflight ORDER BY id")
    return [tuple(row.values()) for row in (*found, *owners)]


class Bench:
    """A generation of twenty for each provider, with nobody at work."""

    def __init__(self, made: World, client: httpx.AsyncClient) -> None:
        self.made = made
        self.client = client
        self.ids: dict[str, str] = {}
        self.tasks: dict[str, list[str]] = {}

    async def fill(self) -> None:
        async with self.made.client() as client:
            for provider, model in MODELS.items():
                made = await client.ask(model, kind="video", input={}, count=20)
                self.ids[provider] = made
                shown = await client.show(made)
                self.tasks[provider] = [task["artifactId"] for task in shown["tasks"]]

    async def post(self, provider: str, payload: Any, named: str | None) -> None:
        generation = self.ids[provider]
        query = {"generation_id": generation, "token": self.made.addresses.token(generation)}
        if named is not None:
            query["task"] = named
        body = json.dumps(payload).encode()
        answer = await self.client.post(
            f"{self.made.url}/webhooks/{provider}", params=query, content=body, headers=signed(body)
        )
        assert (answer.status_code, answer.content) == (200, b""), (provider, payload)


def test_a_webhook_that_names_nothing_of_ours_moves_nothing(
    database_url: str, directory: Path
) -> None:
    with asyncio.Runner() as runner:

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(list(MODELS)), likely, st.none() | st.text(max_size=20))
        def judge(provider: str, payload: Any, named: str | None) -> None:
            async def check() -> None:
                before = await rows(bench.made)
                await bench.post(provider, payload, named)
                assert await rows(bench.made) == before

            runner.run(check())

        bench, leave = runner.run(_bench(database_url, directory))
        judge()
        lines = runner.run(
            bench.made.db.fetchval("SELECT count(*) FROM activity WHERE type = 'webhook_ignored'")
        )
        assert lines <= 2 * len(MODELS)  # one for each reason
        runner.run(leave())


def test_a_webhook_that_names_a_task_of_ours_moves_only_that(
    database_url: str, directory: Path
) -> None:
    with asyncio.Runner() as runner:

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(list(MODELS)), likely, st.integers(0, 19))
        def judge(provider: str, payload: Any, place: int) -> None:
            async def check() -> None:
                named = bench.tasks[provider][place]
                others = "SELECT * FROM generation_tasks WHERE artifact_id <> $1 ORDER BY 1"
                before = await bench.made.db.fetch(others, named)
                await bench.post(provider, payload, named)
                assert await bench.made.db.fetch(others, named) == before

            runner.run(check())

        bench, leave = runner.run(_bench(database_url, directory))
        judge()
        runner.run(leave())


async def _bench(database_url: str, directory: Path) -> Any:
    stack = AsyncExitStack()
    made = await stack.enter_async_context(world(database_url, directory, worker=False, **VENDORS))
    client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))
    bench = Bench(made, client)
    await bench.fill()
    return bench, stack.aclose


ours = st.recursive(
    likely | st.sampled_from(["id-a", "id-b", "old-a", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.parametrize("chooses", [True, False])
def test_moves_are_those_that_are_drawn(chooses: bool) -> None:
    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(ours, st.sampled_from([None, "a", "c"]), st.sampled_from(list(TaskStatus)))
    def judge(payload: Any, named: str | None, status: TaskStatus) -> None:
        first, second = a_task("a", former_ids=("old-a",), status=status), a_task("b")
        before = a_generation(first, second)
        for provider in VENDORS_OFFLINE:
            reports = provider.reports(payload)
            change = heard(before, reports, named, chooses_ids=chooses, now=NOW)
            check_moves(before, change.after)
            assert set(change.work) <= {"a", "b"}
            again = heard(change.after, reports, named, chooses_ids=chooses, now=NOW)
            assert again.after == change.after
            assert again.work == ()

    judge()
