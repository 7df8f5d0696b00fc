"""A crowd at the sign-in: bounded work, a word for the rest, and nobody else waits."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from argon2 import PasswordHasher

from accounts.world import CHEAP, PASSWORD, World
from holding import until_waiting
from inprocess import Application, application
from safelight.accounts import repo, services
from safelight.accounts.access import Role
from safelight.accounts.crowd import AT_ONCE, KEPT, MOST_WAITING, Crowd, SignInCrowded
from safelight.accounts.passwords import Passwords
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.infra.turns import whose
from safelight.testing.waiting import until

CROWD = 100


class Held(PasswordHasher):
    """Hashes when told to."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.go = threading.Event()
        self.begun = self.most = 0

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.begun += 1
        self.most = max(self.most, self.begun)
        self.go.wait(20)
        self.begun -= 1
        return super().hash(password, salt=salt)

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
        self.begun += 1
        self.go.wait(20)
        self.begun -= 1
        return super().verify(hash, password)


async def test_few_hash_and_the_rest_is_told_at_once() -> None:
    held, crowd = Held(), Crowd()
    passwords = Passwords(held)

    async def come(number: int) -> str:
        async with crowd.turn(f"address:{number}", known=False):
            return await passwords.hash("correct horse")

    coming = [asyncio.create_task(come(number)) for number in range(CROWD)]
    inside = AT_ONCE - KEPT + MOST_WAITING
    await until(lambda: sum(task.done() for task in coming) == CROWD - inside)
    for task in coming:
        if task.done():
            with pytest.raises(SignInCrowded) as refused:
                await task
            assert refused.value.retry_after > 0
    held.go.set()
    served = await asyncio.gather(*coming, return_exceptions=True)
    assert sum(isinstance(one, str) for one in served) == inside
    assert held.most == 1
    assert await come(1), "there is room again"


async def test_others_do_not_wait_for_a_crowd(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is sent away has not used up an attempt, and other requests go on meanwhile."""
    held = Held()
    monkeypatch.setattr(services, "Passwords", lambda: Passwords(held))
    async with application(database_url, tmp_path) as app, app.client(None) as client:
        body = {"username": "nobody", "password": "wrong password"}
        limits = httpx.Limits(max_connections=CROWD)
        async with httpx.AsyncClient(base_url=app.url, limits=limits, timeout=60) as crowd:
            attempts = [asyncio.create_task(crowd.post("/login", json=body)) for _ in range(CROWD)]
            await until(lambda: held.begun)
            for _ in range(50):
                assert (await client.get("/healthz")).status_code == 200
            assert not all(attempt.done() for attempt in attempts), "or nobody was waited for"
            held.go.set()
            answers = await asyncio.gather(*attempts)
        counted = await app.db.fetchval("SELECT count(DISTINCT attempt) FROM sign_in_failures")
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) + sum(answer.status_code == 401 for answer in answers) == CROWD
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert any("Many people" in answer.text for answer in refused)
    assert counted == CROWD - len(refused)


HOME, AWAY = "192.0.2.7", "198.51.100.1"


async def crowded(database: Database, hasher: PasswordHasher) -> World:
    world = World(database, passwords=Passwords(hasher))
    await world.organization("acme")
    for name in ("ada", "bob"):
        await world.user(name, {"acme": Role.MEMBER})
    return world


async def enter(
    client: httpx.AsyncClient, name: str, password: str = PASSWORD, **options: Any
) -> int:
    given = {"username": name, "password": password}
    return (await client.post("/login", data=given, **options)).status_code


@asynccontextmanager
async def flood(guess: Callable[[str], Awaitable[int]]) -> AsyncIterator[Counter[int]]:
    """Thirty who guess as fast as they are answered, each time for somebody else."""
    answers, numbers, over = Counter[int](), itertools.count(), asyncio.Event()

    async def again() -> None:
        while not over.is_set():
            answers[await guess(f"user{next(numbers)}")] += 1

    crowd = [asyncio.create_task(again()) for _ in range(30)]
    try:
        yield answers
    finally:
        over.set()
        await asyncio.gather(*crowd)


async def test_one_address_has_few_of_the_turns(database: Database) -> None:
    held = Held()
    held.go.set()
    world = await crowded(database, held)
    async with world.browser(address=HOME) as known, world.browser(address=AWAY) as away:
        assert await enter(known, "ada") == 303
        held.go.clear()
        crowd = [asyncio.create_task(enter(away, f"user{n}", "wrong")) for n in range(30)]
        await until(lambda: held.begun and sum(one.done() for one in crowd) > 15)
        async with world.browser(address="203.0.113.1") as stranger:
            others = [enter(known, "ada"), enter(stranger, "bob")]
            coming = [asyncio.create_task(one) for one in others]
            await until(lambda: counted(database, "device:ada@%", "both:bob@203.0.113.1"))
            held.go.set()
            assert await asyncio.gather(*coming) == [303, 303]
        assert set(await asyncio.gather(*crowd)) == {401, 429}


async def counted(db: Database, *subjects: str) -> bool:
    """They have begun."""
    counting = "SELECT count(*) FROM sign_in_failures WHERE subject LIKE ANY ($1)"
    return bool(await db.fetchval(counting, list(subjects)) == len(subjects))


async def test_whoever_waits_for_the_database_has_few_of_them_too(database: Database) -> None:
    world = await crowded(database, PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    async with world.browser(address=HOME) as known, world.browser(address=AWAY) as away:
        assert await enter(known, "ada") == 303
        async with database.transaction() as other:  # another server, which counts there just now
            await other.execute("SELECT sign_in_lock($1)", f"address:{AWAY}")
            crowd = [asyncio.create_task(enter(away, f"user{n}", "wrong")) for n in range(30)]
            await until_waiting(database, 1)
            async with world.browser(address="203.0.113.1") as stranger:
                assert await enter(known, "ada") == 303
                assert await enter(stranger, "bob") == 303
        await asyncio.gather(*crowd)


async def test_a_flood_at_a_real_server(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that address is over its hundred, of which it has ten left, and after."""
    monkeypatch.setattr(services, "Passwords", lambda: CHEAP)
    proxied = application(database_url, tmp_path, trusted_proxies=("127.0.0.1",))
    async with proxied as app, app.client(None) as crowd, app.client() as other:
        await add_user(app, "ada")
        await app.db.execute(
            "INSERT INTO sign_in_failures SELECT 'before' || n, $1, $2 FROM generate_series(1, 90) n",
            f"address:{AWAY}",
            app.registry.get(Clock).now_ms(),
        )
        device, numbers = "", itertools.count(1)
        away = {"x-forwarded-for": AWAY}
        async with flood(lambda name: enter(crowd, name, "wrong", headers=away)) as answers:
            while answers[401] < 10 or answers[429] < 100:
                async with app.client(None) as browser:
                    home = {"x-forwarded-for": HOME, "cookie": f"safelight_device={device}"}
                    assert await enter(browser, "ada", headers=home) == 303
                    device = browser.cookies["safelight_device"]
                async with app.client(None) as stranger:
                    there = {"x-forwarded-for": f"203.0.113.{next(numbers)}"}
                    assert await enter(stranger, "ada", headers=there) == 303
                assert (await other.get("/api/me")).status_code == 200
        assert answers[401] == 10


async def test_what_is_done_meanwhile_is_not_everybodys_share(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the database's connections: nobody's credentials wait behind a crowd."""
    shares: dict[str, set[str]] = {}

    def noted(statement: Any) -> Any:
        async def look(*given: Any, **more: Any) -> Any:
            shares.setdefault(statement.__name__, set()).add(whose.get())
            return await statement(*given, **more)

        return look

    watched = (
        *("failures_since", "add_failure", "add_session", "knows_device", "still_knows_device"),
        "user_of_link",
    )
    for name in watched:
        monkeypatch.setattr(sign_in_repo, name, noted(getattr(sign_in_repo, name)))
    for name in ("session_user", "token_with"):
        monkeypatch.setattr(repo, name, noted(getattr(repo, name)))
    world = await crowded(database, PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    async with world.browser(address=HOME) as client:
        await client.get("/login?code=none")
        for _ in range(2):  # a stranger, then somebody known
            assert await enter(client, "ada") == 303
        await client.get("/api/me")
    bearer = {"authorization": "Bearer slt_none"}
    async with world.client(address=AWAY, headers=bearer) as client:
        await client.get("/api/me")
    here, known = f"address:{HOME}", "user:ada"
    assert shares == {
        "user_of_link": {here},
        "knows_device": {here},
        "still_knows_device": {known},
        "failures_since": {here, known},
        "add_failure": {here, known},
        "add_session": {here, known},
        "session_user": {here},
        "token_with": {f"address:{AWAY}"},
    }


async def add_user(app: Application, name: str) -> None:
    await repo.add_user(app.db, name, name, 1)
    await repo.set_password(app.db, name, await Passwords().hash(PASSWORD))
    await repo.put_member(app.db, "default", name, Role.VIEWER, 1)
