"""Who is calling, and may they? Every route of every feature carries exactly one of these:

    access: Annotated[Access, allow(Role.MEMBER)]        in an organization: the path's {org}, else
                                                         the token's own, else ?organizationId=
    caller: Annotated[Caller, allow_by_id(Role.VIEWER)]  a thing with an id; the route finds it and
                                                         calls `authorize` with its organization
    caller: Annotated[Caller, signed_in()]               any user or token
    caller: Annotated[Caller, user_only()]               any user
    caller: Annotated[Caller, operator_only()]           the instance's operators
    dependencies=[open_to_everyone]                      no credential needed

Most routes say it by name: `AsViewer`, `AsMember`, `MemberById`, … below. A route without one fails
tests/web/test_access.py. They serve sockets as well: what they raise before the upgrade is answered
over HTTP in the usual shape.

Tokens and sessions become callers. Who they are is kept in mind (known.py) and asked afresh after
any change of accounts: whatever was revoked, lowered or removed is so at once in the process that
did it, and within a second in every other. Only digests are stored. The same-origin rule for
cookies lives here too, so that no route can forget it.
"""

import hmac
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIWebSocketRoute, RouteContext, iter_route_contexts
from starlette.requests import HTTPConnection

from safelight.accounts import repo
from safelight.accounts.access import (
    Caller,
    Role,
    authorize,
    authorize_anyone,
    authorize_operator,
    digest,
    token_grant,
)
from safelight.accounts.known import MOST, KnownCallers
from safelight.accounts.origin import SAFE_METHODS, from_foreign_page, from_own_page, own_origins
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.accounts.sign_in.attempts import of_address
from safelight.accounts.uses import repo as uses_repo
from safelight.errors import Forbidden, InvalidRequest, Unauthenticated
from safelight.http.frame import services
from safelight.infra.db import AWAY, Database
from safelight.infra.injected import TOKEN_PREFIX, Clock
from safelight.infra.turns import whose
from safelight.settings import Settings

COOKIE = "safelight_session"
ORGANIZATION_PARAMETER = "organizationId"
SESSION_MS = 30 * 24 * 3600 * 1000  # unused
LONGEST_SESSION_MS = 90 * 24 * 3600 * 1000  # used or not
_SEEN_EVERY_MS = 3600 * 1000
_LONGEST_SECRET = 512


class BadToken(Unauthenticated):
    """This API token is unknown, expired or revoked."""


class ForeignPage(Forbidden):
    """This request came from another site's page, so it was not carried out."""


@dataclass(frozen=True, slots=True)
class Access:
    caller: Caller
    organization: str


@dataclass(frozen=True)
class Credentials:
    """Whose secret is this?"""

    db: Database
    clock: Clock
    secret_key: str
    known: KnownCallers
    used: dict[str, int] = field(default_factory=dict)  # when tokens were, as noted from here

    def session_digest(self, cookie: str) -> bytes:
        """Keyed: with another secret key every session has ended."""
        value = cookie.encode(errors="surrogatepass")
        return hmac.digest(self.secret_key.encode(), value, "sha256")

    async def of_token(self, secret: str) -> Caller | None:
        if not secret.startswith(TOKEN_PREFIX) or len(secret) > _LONGEST_SECRET:
            return None
        now, key = self.clock.now_ms(), digest(secret)
        if caller := self.known.find(key, now):
            return caller
        asked = self.known.asking(now)
        token = await repo.token_with(self.db, key, now)
        if token is None:
            return None
        grant = token_grant(
            token.grant, has_maker=token.maker_user is not None, maker=token.maker_grant
        )
        if grant is None:
            return None
        roles = {token.organization: grant.role}
        caller = Caller(
            "token", token.id, token.actor_name, roles, grant.operator, token.organization
        )
        await self._note_use(token.id, now)
        self.known.keep(key, caller, asked, token.expires_at)
        return caller

    async def _note_use(self, token_id: str, now: int) -> None:
        """Once an hour. What the token is used for matters more than this."""
        before = now - _SEEN_EVERY_MS
        if self.used.get(token_id, before) > before:
            return
        if len(self.used) >= MOST:
            self.used.clear()
        self.used[token_id] = now  # before it is, for those who come meanwhile
        try:
            with suppress(*AWAY):
                await uses_repo.note_use(self.db, token_id, now, before)
        except BaseException:
            del self.used[token_id]
            raise

    async def of_session(self, cookie: str) -> Caller | None:
        if len(cookie) > _LONGEST_SECRET:
            return None
        now, key = self.clock.now_ms(), self.session_digest(cookie)
        if caller := self.known.find(key, now):
            return caller
        asked = self.known.asking(now)
        found = await repo.session_user(self.db, key, now, now - LONGEST_SESSION_MS)
        if found is None:
            return None
        user, seen_at = found.user, found.seen_at
        if now - seen_at >= _SEEN_EVERY_MS:
            await sign_in_repo.touch_session(self.db, key, now, now + SESSION_MS)
            seen_at = now
        caller = Caller("user", user.id, user.username, user.roles, user.operator)
        # Asked for again when it would be seen again, which is what makes it live on.
        ends = (found.expires_at, found.opened_at + LONGEST_SESSION_MS, seen_at + _SEEN_EVERY_MS)
        self.known.keep(key, caller, asked, min(ends))
        return caller


class Guard:
    """What a route asks of its caller. Read by the route walk and the API's description; a feature
    with a credential of its own derives from it."""


@dataclass(frozen=True)
class Allow(Guard):
    role: Role

    async def __call__(self, connection: HTTPConnection) -> Access:
        caller = authorize_anyone(await identify(connection))
        organization = connection.path_params.get("org")
        if not organization:
            has_query = connection.scope.get("query_string")
            named = connection.query_params.get(ORGANIZATION_PARAMETER) if has_query else None
            organization = named_organization(caller, named)
        authorize(caller, organization, self.role)
        whose.set(organization)
        return Access(caller, organization)


@dataclass(frozen=True)
class AllowById(Guard):
    role: Role

    async def __call__(self, connection: HTTPConnection) -> Caller:
        return authorize_anyone(await identify(connection))


class SignedIn(Guard):
    async def __call__(self, connection: HTTPConnection) -> Caller:
        return authorize_anyone(await identify(connection))


class UserOnly(Guard):
    async def __call__(self, connection: HTTPConnection) -> Caller:
        caller = authorize_anyone(await identify(connection))
        if caller.kind != "user":
            raise Forbidden("This is for people who sign in, not for tokens.")
        return caller


class OperatorOnly(Guard):
    async def __call__(self, connection: HTTPConnection) -> Caller:
        return authorize_operator(await identify(connection))


class MetricsReader(Guard):
    async def __call__(self, connection: HTTPConnection) -> None:
        if not _settings(connection).metrics_open:
            authorize_operator(await identify(connection))


class OpenToEveryone(Guard):
    async def __call__(self, connection: HTTPConnection) -> None:
        whose.set(_from_where(connection))


def allow(role: Role) -> Any:
    return Depends(Allow(role))


def allow_by_id(role: Role) -> Any:
    return Depends(AllowById(role))


def signed_in() -> Any:
    return Depends(SignedIn())


def user_only() -> Any:
    return Depends(UserOnly())


def operator_only() -> Any:
    return Depends(OperatorOnly())


metrics_reader: Any = Depends(MetricsReader())
open_to_everyone: Any = Depends(OpenToEveryone())

AsViewer = Annotated[Access, allow(Role.VIEWER)]
AsMember = Annotated[Access, allow(Role.MEMBER)]
AsApprover = Annotated[Access, allow(Role.APPROVER)]
AsAdmin = Annotated[Access, allow(Role.ADMIN)]
ViewerById = Annotated[Caller, allow_by_id(Role.VIEWER)]
MemberById = Annotated[Caller, allow_by_id(Role.MEMBER)]
AsAnyone = Annotated[Caller, signed_in()]
AsUser = Annotated[Caller, user_only()]
AsOperator = Annotated[Caller, operator_only()]


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    method: str  # SOCKET for a WebSocket
    path: str
    guard: Guard | None


def guarded_routes(api: FastAPI) -> Iterator[GuardedRoute]:
    """Every route the application serves."""
    for route in iter_route_contexts(api.routes):
        is_socket = isinstance(route.original_route, APIWebSocketRoute)
        for method in ("SOCKET",) if is_socket else sorted(route.methods or ()):
            yield GuardedRoute(method, route.path_format or "", _guard_of(route))


async def identify(connection: HTTPConnection) -> Caller | None:
    """The token wins over the cookie, also when it is a bad one. None: nobody in particular.
    A socket calls this again now and then to learn that its credential has ended."""
    header = connection.headers.get("authorization")
    credentials = services(connection).get(Credentials)
    whose.set(_from_where(connection))
    if header is not None:
        scheme, _, secret = header.partition(" ")
        caller = await credentials.of_token(secret.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise BadToken
    elif cookie := connection.cookies.get(COOKIE):
        check_same_origin(connection)
        caller = await credentials.of_session(cookie)
    else:
        return None
    _remember(connection, caller)
    return caller


def check_same_origin(connection: HTTPConnection) -> None:
    """For requests with a cookie: what changes something, and every socket."""
    changes = connection.scope["type"] == "websocket" or (
        connection.scope["method"] not in SAFE_METHODS
    )
    if changes and not from_own_page(connection.headers, _ours(connection)):
        raise ForeignPage


def refuse_foreign_page(connection: HTTPConnection) -> None:
    """For signing in: another site must not sign a visitor into an account of its choice."""
    if from_foreign_page(connection.headers, _ours(connection)):
        raise ForeignPage


def named_organization(caller: Caller, named: str | None) -> str:
    """On routes whose path has no organization."""
    if named is not None:
        return named
    if caller.home is not None:
        return caller.home
    if len(caller.organizations) != 1:
        raise InvalidRequest(f"Say which organization: add ?{ORGANIZATION_PARAMETER}=… .")
    return next(iter(caller.organizations))


def _guard_of(route: RouteContext) -> Guard | None:
    dependant = getattr(route, "dependant", None)
    calls = [found.call for found in dependant.dependencies] if dependant else []
    return next((call for call in calls if isinstance(call, Guard)), None)


def _remember(connection: HTTPConnection, caller: Caller | None) -> None:
    """For the log line, for pages that show who is signed in, and for whose turn it is."""
    state = connection.scope.setdefault("state", {})
    state["caller"] = caller
    state["caller_name"] = caller.name if caller else None
    if caller:
        whose.set(caller.home or caller.id)


def _from_where(connection: HTTPConnection) -> str:
    """Whose turn it is while nobody knows who it is."""
    return of_address(connection.client.host if connection.client else None)


def _ours(connection: HTTPConnection) -> frozenset[str]:
    public_url = _settings(connection).public_url
    return own_origins(connection.url.scheme, connection.headers.get("host"), public_url)


def _settings(connection: HTTPConnection) -> Settings:
    return services(connection).get(Settings)
