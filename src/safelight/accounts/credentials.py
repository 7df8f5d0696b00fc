"""Whose secret is this? Tokens and sessions become callers, asked afresh at every request, so that
whatever was revoked, lowered or removed is so at once. Only digests are stored.
"""

import hashlib
import hmac
from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import Caller, token_grant
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import TOKEN_PREFIX, Clock

SESSION_MS = 30 * 24 * 3600 * 1000
LINK_MS = 24 * 3600 * 1000
_SEEN_EVERY_MS = 3600 * 1000
_LONGEST_SECRET = 512


def digest(secret: str) -> bytes:
    """Plain SHA-256 is enough for secrets of 256 random bits; nobody can try them all."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


@dataclass(frozen=True)
class Credentials:
    db: Database
    clock: Clock
    secret_key: str

    def session_digest(self, cookie: str) -> bytes:
        """Keyed: with another secret key every session has ended."""
        value = cookie.encode(errors="surrogatepass")
        return hmac.digest(self.secret_key.encode(), value, "sha256")

    async def of_token(self, secret: str) -> Caller | None:
        if not secret.startswith(TOKEN_PREFIX) or len(secret) > _LONGEST_SECRET:
            return None
        token = await repo.token_with(self.db, digest(secret), self.clock.now_ms())
        if token is None:
            return None
        grant = token_grant(
            token.grant, has_maker=token.maker_user is not None, maker=token.maker_grant
        )
        if grant is None:
            return None
        roles = {token.organization: grant.role}
        return Caller("token", token.id, token.name, roles, grant.operator, token.organization)

    async def of_session(self, cookie: str) -> Caller | None:
        if len(cookie) > _LONGEST_SECRET:
            return None
        now, key = self.clock.now_ms(), self.session_digest(cookie)
        found = await sign_in_repo.session_user(self.db, key, now)
        if found is None:
            return None
        user, seen_at = found
        if now - seen_at >= _SEEN_EVERY_MS:
            await reach("accounts.touch_session")
            await sign_in_repo.touch_session(self.db, key, now, now + SESSION_MS)
        return Caller("user", user.id, user.username, user.roles, user.operator)
