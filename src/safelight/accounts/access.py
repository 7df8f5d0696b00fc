"""Who there is and who may do what. Pure: every decision about access is made in this file and
nowhere else.

Somebody else's organization is not found rather than forbidden, so that an answer never tells
whether it exists. An operator is no exception: the flag opens the instance's own pages, not the
organizations.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from safelight.errors import Forbidden, NotFound, Unauthenticated

COMMAND_LINE = "command line"  # acts for whoever has access to the database itself
_NAMELESS = frozenset({COMMAND_LINE, "token"})  # what a token is named where nobody names it
_USERNAME = re.compile(r"[a-z0-9._-]{1,64}")


class Role(StrEnum):
    """Ordered: each may do all that the one before it may."""

    VIEWER = "viewer"
    MEMBER = "member"
    APPROVER = "approver"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return _RANKS[self]

    # All four, since str brings its own and would sort admin first.
    def __lt__(self, other: str) -> bool:
        return self.rank < Role(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Role(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Role(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Role(other).rank


_RANKS = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody holds in one organization."""

    role: Role
    operator: bool = False

    def within(self, held: "Grant") -> bool:
        return self.role <= held.role and (held.operator or not self.operator)

    def cut_to(self, held: "Grant") -> "Grant":
        return Grant(min(self.role, held.role), self.operator and held.operator)


@dataclass(frozen=True, slots=True)
class Caller:
    kind: Literal["token", "user"]
    id: str
    name: str
    organizations: Mapping[str, Role]
    operator: bool = False
    home: str | None = None  # a token's own organization

    def as_actor(self) -> dict[str, str]:
        """How history names who did something."""
        return {"type": self.kind, "name": self.name}


@dataclass(frozen=True, slots=True)
class User:
    id: str
    username: str
    operator: bool
    password_hash: str | None
    created_at: int
    revoked_at: int | None
    roles: dict[str, Role]


@dataclass(frozen=True, slots=True)
class UserSession:
    user: User
    opened_at: int
    seen_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Whence:
    """From where somebody signs in, as far as they say."""

    address: str | None = None
    agent: str | None = None  # what the browser calls itself


@dataclass(frozen=True, slots=True)
class OpenSession:
    """One of a user's, for its owner to look at."""

    digest: bytes
    opened_at: int
    seen_at: int  # by the hour
    whence: Whence

    @property
    def handle(self) -> str:
        """Names it on a page; opens nothing."""
        return hashlib.sha256(self.digest).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Member:
    username: str
    role: Role
    created_at: int


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    organization: str
    name: str
    grant: Grant
    created_by: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    maker_user: str | None = None
    maker_token: str | None = None
    maker_grant: Grant | None = None  # what the maker holds now; read with the digest only

    @property
    def actor_name(self) -> str:
        """What history calls it: those that nobody named are told apart by their ids."""
        return self.id if self.name in _NAMELESS else self.name


@dataclass(frozen=True, slots=True)
class Maker:
    """Who answers for what somebody made: a user, a token, a token of a user's, or nobody, which is
    the command line. What they made grants nothing once they could not make it any more."""

    name: str = COMMAND_LINE
    user: str | None = None
    token: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Invitation:
    """A role that waits in an organization for whoever comes with the link under this username."""

    organization: str
    username: str
    role: Role
    made_by: str
    created_at: int
    expires_at: int


def as_actor(caller: Caller | None) -> dict[str, str]:
    """Likewise, where nobody in particular is the command line."""
    return caller.as_actor() if caller else {"type": "system", "name": COMMAND_LINE}


def authorize(caller: Caller | None, organization: str, role: Role) -> Caller:
    """The one authorisation function: returns the caller when they hold the role there."""
    caller = authorize_anyone(caller)
    held = caller.organizations.get(organization)
    if held is None:
        raise NotFound
    if held < role:
        raise Forbidden(f"This needs the role {role} in {organization}; yours is {held}.")
    return caller


def authorize_anyone(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated
    return caller


def authorize_operator(caller: Caller | None) -> Caller:
    caller = authorize_anyone(caller)
    if not caller.operator:
        raise Forbidden("Only an operator of this server may do this.")
    return caller


def authorize_grant(maker: Caller | None, organization: str, asked: Grant) -> Caller:
    """Making a token: an admin's right, and never for more than the admin holds."""
    maker = authorize(maker, organization, Role.ADMIN)
    if not asked.within(Grant(maker.organizations[organization], maker.operator)):
        raise Forbidden("A token cannot grant more than you hold yourself.")
    return maker


def token_grant(asked: Grant, *, has_maker: bool, maker: Grant | None) -> Grant | None:
    """What a token grants now: a maker who was lowered lowers it, one who left ends it."""
    if not has_maker:
        return asked
    return None if maker is None else asked.cut_to(maker)


def earlier(one: int | None, other: int | None) -> int | None:
    """Of two ends; None is no end."""
    return min((moment for moment in (one, other) if moment is not None), default=None)


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def digest(secret: str) -> bytes:
    """Plain SHA-256 is enough for secrets of 256 random bits; nobody can try them all."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
