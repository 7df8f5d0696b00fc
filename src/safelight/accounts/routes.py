"""The API of accounts: who am I, an organization's members, invitations and tokens."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from safelight.accounts import repo
from safelight.accounts.access import Grant, Member, Role
from safelight.accounts.answers import (
    CallerAnswer,
    InvitationAnswer,
    InvitedAnswer,
    MemberAnswer,
    NewTokenAnswer,
    TokenAnswer,
)
from safelight.accounts.guard import AsAdmin, AsAnyone, AsUser
from safelight.accounts.invitations import repo as invitations_repo
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.members import Members
from safelight.accounts.show import show_caller, show_invitation, show_member, show_token
from safelight.accounts.tokens import MOST_NAME_CHARACTERS, Tokens
from safelight.accounts.uses import repo as uses_repo
from safelight.http.described import Described, PageOf
from safelight.http.frame import ClockDep, DatabaseDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page

router = APIRouter(tags=["accounts"], route_class=Described)

_LONGEST_LIFE_SECONDS = 100 * 366 * 24 * 3600

MembersDep = Annotated[Members, provided(Members)]
InvitationsDep = Annotated[Invitations, provided(Invitations)]
TokensDep = Annotated[Tokens, provided(Tokens)]


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class MemberBody(_Camel):
    role: Role


class TokenBody(_Camel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"role": "member", "name": "camera", "expiresInSeconds": 2592000}]
        }
    )

    role: Role
    name: Annotated[str, Field(min_length=1, max_length=MOST_NAME_CHARACTERS)] = "token"
    operator: bool = False
    expires_in_seconds: Annotated[int | None, Field(ge=1, le=_LONGEST_LIFE_SECONDS)] = None


@router.get("/api/me", summary="Who is calling", response_model=CallerAnswer)
async def me(caller: AsAnyone) -> dict[str, Any]:
    return show_caller(caller)


@router.get(
    "/api/organizations/{org}/members",
    summary="An organization's members",
    response_model=PageOf[MemberAnswer],
)
async def list_members(
    access: AsAdmin, db: DatabaseDep, cursors: CursorsDep, wanted: PageRequest
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"members:{access.organization}"
    after = (cursors.read(purpose, cursor) or [None])[0]
    rows = await repo.members(db, access.organization, after=after, limit=limit + 1)
    return page(rows, limit, show_member, lambda m: cursors.make(purpose, [m.username]))


@router.put(
    "/api/organizations/{org}/members/{username}",
    summary="Add a member or change their role",
    description="A member gets the role at once. Anybody else is invited, and the answer has "
    "`signInLink`, the path of a link that works once within a day, for you to give them. It makes "
    "their account if they have none; if they have one, they sign in and accept. It is the same "
    "answer in both cases. Asked again, the earlier link ends.",
    response_model=MemberAnswer | InvitedAnswer,
)
async def put_member(
    username: str, body: MemberBody, access: AsAdmin, members: MembersDep
) -> dict[str, Any]:
    put = await members.put(access.organization, username, body.role, actor=access.caller)
    if isinstance(put, Member):
        return show_member(put)
    invitation, link = put
    return show_invitation(invitation) | {"signInLink": link}


@router.delete(
    "/api/organizations/{org}/members/{username}", status_code=204, summary="Remove a member"
)
async def remove_member(username: str, access: AsAdmin, members: MembersDep) -> Response:
    await members.remove(access.organization, username, actor=access.caller)
    return Response(status_code=204)


@router.get(
    "/api/organizations/{org}/invitations",
    summary="An organization's invitations that still stand",
    response_model=PageOf[InvitationAnswer],
)
async def list_invitations(
    access: AsAdmin, db: DatabaseDep, clock: ClockDep, cursors: CursorsDep, wanted: PageRequest
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"invitations:{access.organization}"
    after = (cursors.read(purpose, cursor) or [None])[0]
    rows = await invitations_repo.of_organization(
        db, access.organization, clock.now_ms(), after=after, limit=limit + 1
    )
    return page(rows, limit, show_invitation, lambda i: cursors.make(purpose, [i.username]))


@router.delete(
    "/api/organizations/{org}/invitations/{username}",
    status_code=204,
    summary="Withdraw an invitation",
)
async def withdraw_invitation(
    username: str, access: AsAdmin, invitations: InvitationsDep
) -> Response:
    await invitations.withdraw(access.organization, username, actor=access.caller)
    return Response(status_code=204)


@router.get(
    "/api/me/invitations",
    summary="Who has invited you",
    description="To accept one takes the link that you were given.",
    response_model=PageOf[InvitationAnswer],
)
async def my_invitations(caller: AsUser, invitations: InvitationsDep) -> dict[str, Any]:
    found = await invitations.to(caller.name)
    return {"items": [show_invitation(invitation) for invitation in found], "nextCursor": None}


@router.get(
    "/api/organizations/{org}/tokens",
    summary="An organization's tokens, newest first",
    description="`lastUsedAt` is noted once an hour.",
    response_model=PageOf[TokenAnswer],
)
async def list_tokens(
    access: AsAdmin, db: DatabaseDep, cursors: CursorsDep, wanted: PageRequest
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"tokens:{access.organization}"
    key = cursors.read(purpose, cursor)
    before = (key[0], key[1]) if key else None
    rows = await repo.tokens(db, access.organization, before=before, limit=limit + 1)
    uses = await uses_repo.last_uses(db, [token.id for token in rows])
    return page(
        rows,
        limit,
        lambda token: show_token(token, uses.get(token.id)),
        lambda token: cursors.make(purpose, [token.created_at, token.id]),
    )


@router.post(
    "/api/organizations/{org}/tokens",
    status_code=201,
    summary="Make a token",
    description="The answer holds the token itself, this once.",
    response_model=NewTokenAnswer,
)
async def make_token(
    body: TokenBody,
    access: AsAdmin,
    tokens: TokensDep,
    clock: ClockDep,
) -> dict[str, Any]:
    life = body.expires_in_seconds
    token, secret = await tokens.make(
        access.organization,
        Grant(body.role, body.operator),
        name=body.name,
        maker=access.caller,
        expires_at=None if life is None else clock.now_ms() + life * 1000,
    )
    return {"token": secret, **show_token(token)}


@router.delete(
    "/api/organizations/{org}/tokens/{token_id}", status_code=204, summary="Revoke a token"
)
async def revoke_token(token_id: str, access: AsAdmin, tokens: TokensDep) -> Response:
    await tokens.revoke(token_id, organization=access.organization, actor=access.caller)
    return Response(status_code=204)
