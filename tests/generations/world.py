"""Generations with everything they need and nothing else: a database, a store, a worker, a port."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from argon2 import PasswordHasher

from objects.stores import Watch
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.passwords import Passwords
from safelight.accounts.services import open_accounts
from safelight.accounts.tokens import Tokens
from safelight.app import create_app
from safelight.errors import Conflict
from safelight.generations.fetch import Fetcher
from safelight.generations.jobs import KINDS, work
from safelight.generations.orders import WebhookAddresses
from safelight.generations.providers import registry as providers
from safelight.generations.services import open_generations
from safelight.generations.sweep import GenerationSweep
from safelight.http.frame import Registry
from safelight.http.paging import Cursors
from safelight.infra.base import Base, Feature
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import DAY
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.infra.reading import FreshReads
from safelight.objects.blobs import Blobs
from safelight.objects.downloads import Downloads
from safelight.objects.local import LocalStore
from safelight.objects.store import ObjectStore
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load
from safelight.testing.waiting import until
from sandbox.shared import shared_sandbox

SECRET = "s" * 40
CHEAP = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
TIMEOUT = 20.0
_owners = itertools.count(1)


@dataclass
class World:
    db: Database
    registry: Registry
    queue: Queue
    worker: Worker | None
    store: ObjectStore
    generations: Feature
    url: str

    @property
    def addresses(self) -> WebhookAddresses:
        return WebhookAddresses(SECRET, lambda: self.url)

    async def ring(self) -> None:
        """The timer of every generation comes now."""
        await self.db.execute("UPDATE jobs SET run_at = now() WHERE kind = 'generations.alarm'")
        self.queue.wake()

    async def closes(self) -> None:
        """The timer has come, and what was delivered gets a little longer to be stored."""
        closing = "SELECT EXISTS (SELECT FROM generations_inflight WHERE closes_at IS NOT NULL)"
        await until(lambda: self.db.fetchval(closing))

    async def token(self, organization: str = "acme", role: Role = Role.MEMBER) -> str:
        tokens = self.registry.get(Tokens)
        _, secret = await tokens.make(organization, Grant(role), name="t", maker=None)
        return secret

    @asynccontextmanager
    async def client(
        self, organization: str = "acme", role: Role = Role.MEMBER
    ) -> AsyncIterator["Client"]:
        headers = {"authorization": f"Bearer {await self.token(organization, role)}"}
        async with httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=30, trust_env=False
        ) as http:
            yield Client(http)


@dataclass
class Client:
    http: httpx.AsyncClient

    async def ask(self, model: str = "runware:100@1", **body: Any) -> str:
        headers = body.pop("headers", {})
        wanted = {"model": model, "input": {"prompt": "a kite"}, **body}
        response = await self.http.post("/generations", json=wanted, headers=headers)
        assert response.status_code == 202, response.text
        new_id: str = response.json()["id"]
        return new_id

    async def show(self, generation_id: str) -> dict[str, Any]:
        response = await self.http.get(f"/generations/{generation_id}")
        assert response.status_code == 200, response.text
        shown: dict[str, Any] = response.json()
        return shown

    async def over(self, generation_id: str, seconds: float = TIMEOUT) -> dict[str, Any]:
        """The generation once it has ended."""

        async def ended() -> dict[str, Any] | None:
            shown = await self.show(generation_id)
            return shown if shown["status"] in {"ready", "failed"} else None

        found: dict[str, Any] = await until(ended, seconds)
        return found

    async def items(self, path: str, **query: Any) -> list[dict[str, Any]]:
        response = await self.http.get(path, params=query)
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    async def troubled(self, generation_id: str) -> None:
        """A task of it was tried, in vain, and will be tried again."""

        async def told() -> bool:
            return "task_attempt" in await self.story(generation_id)

        await until(told)

    async def story(self, generation_id: str) -> list[str]:
        items = await self.items(f"/generations/{generation_id}/history")
        return [item["type"] for item in items]


def later_sweep(made: World, days: float = 8) -> GenerationSweep:
    """As it is when state in flight has become old, and objects have."""
    later = Watch(SystemClock().now_ms() + int(days * DAY * 1000))
    return GenerationSweep(made.db, made.store, later, keep_days=7)


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


@asynccontextmanager
async def world(
    database_url: str,
    directory: Path,
    *,
    worker: bool = True,
    lease: float = 10.0,
    clock: Clock | None = None,
    open_store: Callable[[Database], ObjectStore] | None = None,
    fetcher: Fetcher | None = None,
    sandbox: Sandbox | None = None,
    public_url: str | None = None,
    port: int = 0,
    **values: Any,
) -> AsyncIterator[World]:
    clock, ids, metrics = clock or SystemClock(), RandomIds(), Metrics()
    settings = load({"data_dir": directory, "public_url": public_url, **values})
    async with AsyncExitStack() as stack:
        db = await Database.open(database_url, pool_size=8)
        stack.callback(db.terminate)
        store: ObjectStore
        if open_store is not None:
            store = open_store(db)
        else:
            store = LocalStore(db, Blobs(directory / "blobs", ids), clock, ids)
        stack.push_async_callback(store.close)
        owner = f"world-{next(_owners)}"
        bus = Bus(db, owner)
        await bus.start()
        stack.push_async_callback(bus.stop)
        kinds = {*KINDS, *(work(name) for name in providers.names())}  # also a test's own
        queue = Queue(db, bus, clock, owner=owner, node=owner, kinds=kinds, lease=lease)
        base = Base(settings, clock, ids, metrics, db, bus, queue, queue.units)
        where: list[str] = []
        webhooks = WebhookAddresses(SECRET, lambda: public_url or where[0])
        made = open_generations(base, store, sandbox or shared_sandbox(), webhooks, fetcher=fetcher)
        assert made.close is not None
        stack.push_async_callback(made.close)
        running = None
        if worker:
            running = Worker(queue, made.handlers, poll=0.2)
            await running.start()
            stack.push_async_callback(running.stop, 0.5)
        reads = FreshReads(db, None, metrics)
        registry = Registry(
            settings, db, reads, queue, bus, metrics, Cursors(SECRET), *made.services
        )
        registry.add(store, as_type=ObjectStore)
        registry.add(clock, as_type=Clock)
        registry.add(Downloads(clock))
        registry.add(ids, as_type=Ids)
        base = Base(settings, clock, ids, metrics, db, bus, queue, queue.units)
        for service in open_accounts(base, SECRET, CHEAP).services:
            registry.add(service)
        await _organizations(registry)
        url = await stack.enter_async_context(_served(registry, port))
        where.append(url)
        yield World(db, registry, queue, running, store, made, url)


async def _organizations(registry: Registry) -> None:
    for name in ("acme", "globex"):
        try:
            await registry.get(Members).make_organization(name)
        except Conflict:
            continue


@asynccontextmanager
async def _served(registry: Registry, port: int) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", port)) as listener:
        config = uvicorn.Config(
            create_app(registry), lifespan="off", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([listener]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
