"""A server in this process with a database, a clock that is moved by hand, and people in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI

from safelight.accounts import repo
from safelight.accounts.access import Grant, Role
from safelight.accounts.guard import COOKIE, Credentials
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.members import Members
from safelight.accounts.passwords import Passwords
from safelight.accounts.services import open_accounts
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.sign_in.sessions import Sessions
from safelight.accounts.tokens import Tokens
from safelight.app import create_api, create_app
from safelight.http.frame import Frame, Registry
from safelight.http.paging import Cursors
from safelight.infra.activity import Units
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids, RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.queue.queue import Queue
from safelight.settings import Settings, load
from safelight.web.assets import Assets
from safelight.web.rendering import Pages

HERE = "http://safelight.test"
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
PASSWORD = "correct horse battery"
CHEAP = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


class HandClock:
    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def advance(self, **units: float) -> None:
        seconds = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
        self.ms += int(sum(amount * seconds[unit] for unit, amount in units.items()) * 1000)


def own_api() -> FastAPI:
    """Routes that a test may add to: the usual ones are shared."""
    api: FastAPI = create_api.__wrapped__(development=False)
    return api


@dataclass
class World:
    db: Database
    settings: Settings = field(default_factory=lambda: load({"secret_key": "k" * 32}))
    clock: HandClock = field(default_factory=HandClock)
    ids: RandomIds = field(default_factory=RandomIds)
    passwords: Passwords = CHEAP
    origin: str = "test"  # as the bus knows it; it listens where it is started

    def __post_init__(self) -> None:
        self.registry = Registry(
            self.settings, self.db, Metrics(), Cursors("k" * 32), Pages(Assets())
        )
        self.registry.add(self.clock, as_type=Clock)
        self.registry.add(self.ids, as_type=Ids)
        for service in open_accounts(self.base(), "k" * 32, self.passwords).services:
            self.registry.add(service)
        self.app = create_app(self.registry)

    def behind(self, api: FastAPI) -> None:
        """Answered by these routes from here on."""
        self.app = Frame(api, self.registry, {})

    def base(self) -> Base:
        bus, clock = Bus(self.db, self.origin), self.clock
        self.bus = bus
        queue = Queue(self.db, bus, clock, owner="test", node="test", kinds=())
        self.units = Units(self.db, bus, clock)
        return Base(self.settings, clock, self.ids, Metrics(), self.db, bus, queue, self.units)

    @property
    def credentials(self) -> Credentials:
        return self.registry.get(Credentials)

    @property
    def sign_in(self) -> SignIn:
        return self.registry.get(SignIn)

    @property
    def sessions(self) -> Sessions:
        return self.registry.get(Sessions)

    @property
    def invitations(self) -> Invitations:
        return self.registry.get(Invitations)

    @property
    def tokens(self) -> Tokens:
        return self.registry.get(Tokens)

    @property
    def members(self) -> Members:
        return self.registry.get(Members)

    def client(self, *, address: str = "192.0.2.7", **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app, client=(address, 5000))
        return httpx.AsyncClient(transport=transport, base_url=HERE, **options)

    def browser(
        self, cookie: str | None = None, *, address: str = "192.0.2.7"
    ) -> httpx.AsyncClient:
        """Sends what a browser sends from one of our own pages."""
        headers = {"accept": "text/html,application/xhtml+xml", **SAME_ORIGIN}
        cookies = {COOKIE: cookie} if cookie else {}
        return self.client(address=address, headers=headers, cookies=cookies)

    def program(self, token: str) -> httpx.AsyncClient:
        return self.client(headers={"authorization": f"Bearer {token}"})

    async def organization(self, *names: str) -> None:
        for name in names:
            await self.members.make_organization(name)

    async def user(
        self,
        name: str,
        roles: Mapping[str, Role] | None = None,
        *,
        operator: bool = False,
        password: str | None = PASSWORD,
    ) -> str:
        user_id = self.ids.short("usr")
        now = self.clock.now_ms()
        await repo.add_user(self.db, user_id, name, now, operator=operator)
        if password is not None:
            await repo.set_password(self.db, user_id, await CHEAP.hash(password))
        for organization, role in (roles or {}).items():
            await repo.put_member(self.db, organization, user_id, role, now)
        return user_id

    async def cookie(self, name: str, password: str = PASSWORD) -> str:
        opened = await self.sign_in.with_password(name, password, address=None, cookie=None)
        return opened.cookie

    async def token(self, organization: str, role: Role, *, operator: bool = False) -> str:
        grant = Grant(role, operator)
        _, secret = await self.tokens.make(organization, grant, name="test", maker=None)
        return secret
