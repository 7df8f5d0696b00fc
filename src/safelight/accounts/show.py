"""How accounts look on the wire."""

from typing import Any

from safelight.accounts.access import Caller, Invitation, Member, Token
from safelight.infra.injected import iso


def show_caller(caller: Caller) -> dict[str, Any]:
    roles = caller.organizations
    return {
        "kind": caller.kind,
        "id": caller.id,
        "name": caller.name,
        "operator": caller.operator,
        "organizations": [{"id": name, "role": roles[name]} for name in roles],
    }


def show_member(member: Member) -> dict[str, Any]:
    return {
        "username": member.username,
        "role": member.role,
        "createdAt": iso(member.created_at),
    }


def show_invitation(invitation: Invitation) -> dict[str, Any]:
    return {
        "organizationId": invitation.organization,
        "username": invitation.username,
        "role": invitation.role,
        "madeBy": invitation.made_by,
        "createdAt": iso(invitation.created_at),
        "expiresAt": iso(invitation.expires_at),
    }


def show_token(token: Token, used_at: int | None = None) -> dict[str, Any]:
    """When it was used is known to the hour."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.grant.role,
        "operator": token.grant.operator,
        "createdBy": token.created_by,
        "createdAt": iso(token.created_at),
        "lastUsedAt": None if used_at is None else iso(used_at),
        "expiresAt": None if token.expires_at is None else iso(token.expires_at),
        "revokedAt": None if token.revoked_at is None else iso(token.revoked_at),
    }
