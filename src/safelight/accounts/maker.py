"""Who answers for what a caller makes."""

from safelight.accounts import repo
from safelight.accounts.access import Caller, Maker
from safelight.errors import Forbidden
from safelight.infra.db import Connection


async def maker_of(connection: Connection, caller: Caller | None) -> Maker:
    """A token's own maker answers for what the token makes, which does not outlive the token."""
    if caller is None:
        return Maker()
    if caller.kind == "user":
        return Maker(caller.name, caller.id)
    token = await repo.token(connection, caller.id)
    if token is None or token.revoked_at is not None:
        raise Forbidden("The token that asks for this was revoked.")
    return Maker(caller.name, token.maker_user, token.id, token.expires_at)
