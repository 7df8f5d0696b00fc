"""What wiring adds to the registry for accounts."""

from safelight.accounts.changes import Changes
from safelight.accounts.credentials import Credentials
from safelight.accounts.members import Members
from safelight.accounts.passwords import Passwords
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.tokens import Tokens
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids


def account_services(
    db: Database, clock: Clock, ids: Ids, secret_key: str, passwords: Passwords | None = None
) -> tuple[object, ...]:
    credentials = Credentials(db, clock, secret_key)
    changes = Changes(db, clock, ids)
    sign_in = SignIn(db, clock, ids, credentials, passwords or Passwords())
    return credentials, sign_in, Tokens(changes), Members(changes)
