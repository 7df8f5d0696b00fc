"""What a database without any organization is given: the organization `default`, an operator, a
sign-in link and, for machines, the bootstrap token.

All of it is one transaction under one lock, so a crash leaves nothing half made and of several
processes that start together one does it and the others find it done.
"""

import structlog

from safelight.accounts import repo
from safelight.accounts.access import Grant, Role, Token, digest
from safelight.accounts.sign_in.links import make_link
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.settings import Settings

ORGANIZATION = "default"
OPERATOR = "operator"


async def first_start(units: Units, settings: Settings, ids: Ids) -> str | None:
    """Returns the path of a sign-in link, at every start until the operator has a password: nobody
    needs to have kept the one before."""
    given = settings.bootstrap_token
    bootstrap = given.get_secret_value() if given else None
    async with units.open("") as unit:
        await repo.lock_first_start(unit.connection)
        if not await repo.organizations(unit.connection):
            await _found(unit, ids, bootstrap)
        elif bootstrap and not await repo.knows_digest(unit.connection, digest(bootstrap)):
            structlog.get_logger().warning(
                "SAFELIGHT_BOOTSTRAP_TOKEN is ignored: this database was set up before. "
                "Make a token with `safelight tokens create`, or unset the variable."
            )
        operator = await repo.user_named(unit.connection, OPERATOR)
        if operator is None or operator.revoked_at or operator.password_hash:
            return None
        return await make_link(unit.connection, ids, operator.id, unit.now)


async def secret_key(db: Database, settings: Settings, ids: Ids) -> str:
    """The setting, else one made at first start; every process gets the same."""
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value()
    return await repo.keep_first(db, "secret_key", ids.secret())


async def _found(unit: Unit, ids: Ids, bootstrap: str | None) -> None:
    connection, user_id = unit.connection, ids.short("usr")
    await repo.add_organization(connection, ORGANIZATION, unit.now)
    await repo.add_user(connection, user_id, OPERATOR, unit.now, operator=True)
    await repo.put_member(connection, ORGANIZATION, user_id, Role.ADMIN, unit.now)
    if bootstrap is None:
        return
    token = Token(
        id=ids.short("tok"),
        organization=ORGANIZATION,
        name="bootstrap",
        grant=Grant(Role.ADMIN, operator=True),
        created_by="first start",
        created_at=unit.now,
        expires_at=None,
        revoked_at=None,
    )
    await repo.add_token(connection, token, digest(bootstrap))
