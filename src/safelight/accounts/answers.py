"""Callers, members and tokens as the API answers them."""

from typing import Literal

from typing_extensions import TypedDict

from safelight.accounts.access import Role


class RoleAnswer(TypedDict):
    id: str
    role: Role


class CallerAnswer(TypedDict):
    kind: Literal["user", "token"]
    id: str
    name: str
    operator: bool
    organizations: list[RoleAnswer]


class MemberAnswer(TypedDict):
    username: str
    role: Role
    createdAt: str


class InvitationAnswer(TypedDict):
    organizationId: str
    username: str
    role: Role
    madeBy: str | None
    createdAt: str
    expiresAt: str


class InvitedAnswer(InvitationAnswer):
    signInLink: str


class TokenAnswer(TypedDict):
    id: str
    name: str
    role: Role
    operator: bool
    createdBy: str | None
    createdAt: str
    lastUsedAt: str | None
    expiresAt: str | None
    revokedAt: str | None


class NewTokenAnswer(TokenAnswer):
    token: str
