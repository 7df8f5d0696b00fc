"""Accounts, opened."""

from safelight.accounts.guard import Credentials
from safelight.accounts.members import Members
from safelight.accounts.passwords import Passwords
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.tokens import Tokens
from safelight.infra.base import Base, Feature


def open_accounts(base: Base, secret_key: str, passwords: Passwords | None = None) -> Feature:
    credentials = Credentials(base.db, base.clock, secret_key)
    sign_in = SignIn(base.units, base.ids, credentials, passwords or Passwords())
    tokens, members = Tokens(base.units, base.ids), Members(base.units, base.ids)
    return Feature(services=(credentials, sign_in, tokens, members))
