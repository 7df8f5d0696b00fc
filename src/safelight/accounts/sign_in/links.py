"""Links: a path with a secret in it, that its owner opens once, within a day."""

from safelight.accounts.access import digest
from safelight.accounts.repo import Executor
from safelight.accounts.sign_in import repo
from safelight.errors import Unauthenticated
from safelight.infra.injected import Ids

LINK_MS = 24 * 3600 * 1000


class DeadLink(Unauthenticated):
    """This link was used already, taken back or is older than a day. Sign in with your password, or
    ask for a new link."""


def link_path(code: str) -> str:
    return f"/login?code={code}"


async def make_link(db: Executor, ids: Ids, user_id: str, now: int) -> str:
    """The path of a link that signs this user in."""
    code = ids.secret()
    await repo.add_link(db, digest(code), user_id, now, now + LINK_MS)
    return link_path(code)
