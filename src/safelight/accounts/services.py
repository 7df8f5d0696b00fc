"""Accounts, opened."""

from safelight.accounts.guard import Credentials
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.known import CREDENTIALS, KnownCallers
from safelight.accounts.members import Members
from safelight.accounts.passwords import Passwords
from safelight.accounts.sign_in.attempts import Attempts
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.sign_in.sessions import Sessions
from safelight.accounts.tokens import Tokens
from safelight.infra.activity import Units
from safelight.infra.base import Base, Feature


def open_accounts(base: Base, secret_key: str, passwords: Passwords | None = None) -> Feature:
    credentials = Credentials(base.db, base.clock, secret_key, KnownCallers(base.bus))
    # What is known here is forgotten before whoever changed it is answered.
    units = Units(base.db, base.bus, base.clock, news=(CREDENTIALS, ""))
    ids = base.ids
    invitations = Invitations(units, ids)
    sign_in = SignIn(
        units, ids, credentials, passwords or Passwords(), Attempts(units, ids), invitations
    )
    tokens, members = Tokens(units, ids), Members(units, ids)
    sessions = Sessions(units, credentials)
    return Feature(services=(credentials, sign_in, sessions, tokens, members, invitations))
