"""Making and revoking API tokens.

A token answers for its whole life to the user behind it: it grants no more than that user holds at
the moment of use, ends when that user leaves, and a token made by a token neither outlives it nor
survives its revocation.
"""

from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import (
    Caller,
    Grant,
    Role,
    Token,
    as_actor,
    authorize_grant,
    digest,
    earlier,
)
from safelight.accounts.maker import maker_of
from safelight.accounts.members import hold_organization
from safelight.errors import InvalidRequest, NotFound
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.infra.injected import TOKEN_PREFIX, Ids

MOST_NAME_CHARACTERS = 100


class UnknownToken(NotFound):
    """There is no such token."""


@dataclass(frozen=True)
class Tokens:
    units: Units
    ids: Ids

    async def make(
        self,
        organization: str,
        asked: Grant,
        *,
        name: str,
        maker: Caller | None,
        expires_at: int | None = None,
    ) -> tuple[Token, str]:
        """Returns the secret beside the record; it can never be read again."""
        if maker is not None:
            authorize_grant(maker, organization, asked)
        _check(asked, name, expires_at, self.units.clock.now_ms())
        token_id, secret = self.ids.short("tok"), TOKEN_PREFIX + self.ids.secret()
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            behind = await maker_of(unit.connection, maker)
            token = Token(
                id=token_id,
                organization=organization,
                name=name,
                grant=asked,
                created_by=behind.name,
                created_at=unit.now,
                expires_at=earlier(expires_at, behind.until),
                revoked_at=None,
                maker_user=behind.user,
                maker_token=behind.token,
            )
            await repo.add_token(unit.connection, token, digest(secret))
            data = {"name": name, "role": asked.role, "actor": as_actor(maker)}
            unit.tell(Line(f"token:{token_id}", "token_made", data))
        return token, secret

    async def revoke(
        self, token_id: str, *, organization: str | None, actor: Caller | None
    ) -> None:
        """Again does nothing. `organization` None: whichever it belongs to."""
        token = await repo.token(self.units.db, token_id)
        if token is None or organization not in {None, token.organization}:
            raise UnknownToken
        if token.revoked_at is not None:
            return
        async with self.units.open(token.organization) as unit:
            await hold_organization(unit)
            await repo.revoke_token(unit.connection, token_id, unit.now)
            data = {"name": token.name, "actor": as_actor(actor)}
            unit.tell(Line(f"token:{token_id}", "token_revoked", data))


def _check(asked: Grant, name: str, expires_at: int | None, now: int) -> None:
    if not 1 <= len(name) <= MOST_NAME_CHARACTERS or not name.isprintable():
        raise InvalidRequest(f"Name the token with 1 to {MOST_NAME_CHARACTERS} characters.")
    if asked.operator and asked.role is not Role.ADMIN:
        raise InvalidRequest("An operator's token has the role admin.")
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest("The token would have expired already.")
