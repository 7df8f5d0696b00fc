"""What a database without any organization is given: the organization `default`, an operator, a
sign-in link and, for machines, the bootstrap token.

All of it is one transaction under one lock, so a crash leaves nothing half made and of several
processes that start together one does it and the others find it done.
"""

import structlog

from safelight.accounts import repo
from safelight.accounts.access import Grant, Role
from safelight.accounts.credentials import digest
from safelight.accounts.repo import Token, User
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.accounts.sign_in.flow import make_link
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock, Ids
from safelight.settings import Settings

ORGANIZATION = "default"
OPERATOR = "operator"


async def first_start(db: Database, settings: Settings, clock: Clock, ids: Ids) -> str | None:
    """Returns the path of a sign-in link when one was made: at the first start, and at any later
    one where the operator has neither a password nor a link that still works."""
    given = settings.bootstrap_token
    bootstrap = given.get_secret_value() if given else None
    async with db.transaction() as connection:
        await repo.lock_first_start(connection)
        if not await repo.organizations(connection):
            await _found(connection, clock, ids, bootstrap)
        elif bootstrap and not await repo.knows_digest(connection, digest(bootstrap)):
            structlog.get_logger().warning(
                "SAFELIGHT_BOOTSTRAP_TOKEN is ignored: this database was set up before. "
                "Make a token with `safelight tokens create`, or unset the variable."
            )
        operator = await repo.user_named(connection, OPERATOR)
        if operator is None or not await _locked_out(connection, operator, clock):
            return None
        return await make_link(connection, clock, ids, operator.id)


async def secret_key(db: Database, settings: Settings, ids: Ids) -> str:
    """The setting, else one made at first start; every process gets the same."""
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value()
    await reach("first_start.secret_key")
    return await repo.keep_first(db, "secret_key", ids.secret())


async def _found(connection: Connection, clock: Clock, ids: Ids, bootstrap: str | None) -> None:
    now, user_id = clock.now_ms(), ids.short("usr")
    await reach("first_start.organization")
    await repo.add_organization(connection, ORGANIZATION, now)
    await reach("first_start.operator")
    await repo.add_user(connection, user_id, OPERATOR, now, operator=True)
    await reach("first_start.membership")
    await repo.put_member(connection, ORGANIZATION, user_id, Role.ADMIN, now)
    if bootstrap is None:
        return
    token = Token(
        id=ids.short("tok"),
        organization=ORGANIZATION,
        name="bootstrap",
        grant=Grant(Role.ADMIN, operator=True),
        created_by="first start",
        created_at=now,
        expires_at=None,
        revoked_at=None,
    )
    await reach("first_start.token")
    await repo.add_token(connection, token, digest(bootstrap))


async def _locked_out(connection: Connection, operator: User, clock: Clock) -> bool:
    if operator.revoked_at is not None or operator.password_hash is not None:
        return False
    return not await sign_in_repo.has_live_link(connection, operator.id, clock.now_ms())
