"""How often somebody may guess. Nobody can shut somebody else out by guessing:

- for one user from one address, ten failures in a quarter of an hour are too many, whoever it is;
- for one user from anywhere, each failure after ten makes the next attempt wait longer, up to a
  minute, and never more;
- for one address, whatever the users, a hundred are too many;
- a browser that has signed this user in before has ten of its own, and nobody else's count there;
  they stay with it when it is given a new secret, whoever signs in.

An attempt counts as failed from the moment it begins until it succeeds, so that attempts made at
the same moment count too. A success takes back that attempt and the failures of the same user from
the same place, but no others: whoever owns one account could otherwise wipe the count and go on
guessing. Changing the password asks for the present one, and counts by itself.

It is decided here and counted by one statement, which says when somebody else was counted since:
no lock is held while we decide.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from safelight.accounts.access import is_username
from safelight.accounts.repo import Executor
from safelight.accounts.sign_in import repo
from safelight.accounts.sign_in.refusals import Refusals
from safelight.errors import RateLimited
from safelight.infra.activity import Units
from safelight.infra.injected import Ids

WINDOW_MS = 15 * 60 * 1000
MOST_FAILURES = 10
MOST_OF_AN_ADDRESS = 100
LONGEST_DELAY_SECONDS = 60
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Attempt:
    id: str
    subjects: Sequence[str]  # the first is the place: the one that a success wipes


@dataclass(frozen=True)
class Attempts:
    units: Units
    ids: Ids
    refusals: Refusals = field(default_factory=Refusals)

    def check(self, subjects: Sequence[str]) -> None:
        """Refuses what was refused a moment ago, without asking the database."""
        now = self.units.clock.now_ms()
        refuse(self.refusals.until(subjects, now), now)

    async def begin(self, subjects: Sequence[str]) -> Attempt:
        """Counts the attempt as failed, or refuses it. The first subject is the place."""
        attempt, db = Attempt(self.ids.uuid4(), subjects), self.units.db
        while True:  # each round somebody else was counted, until they are too many
            self.check(subjects)
            now = self.units.clock.now_ms()
            seen = await repo.failures_since(db, subjects, now - WINDOW_MS)
            until = {subject: free_at(subject, times) for subject, times in seen.items()}
            self.refusals.keep({s: moment for s, moment in until.items() if moment > now}, now)
            refuse(max(until.values()), now)
            if await repo.add_failure(db, attempt.id, seen, now - WINDOW_MS, now):
                return attempt

    async def succeed(self, db: Executor, attempt: Attempt) -> None:
        await repo.clear_failures(db, attempt.id, attempt.subjects[0])

    def forget(self, attempt: Attempt) -> None:
        """Once it is committed that it succeeded."""
        self.refusals.forget(attempt.subjects)


def refuse(until: int, now: int) -> None:
    if wait := _seconds(until, now):
        raise RateLimited(
            f"Too many failed attempts. Wait {in_words(wait)}, or use a sign-in link.",
            retry_after=wait,
        )


@lru_cache(maxsize=1024)  # asked for with every request, and most come from where others came from
def of_address(address: str | None) -> str:
    """All who are there. One IPv6 customer has a /64 to choose from, so a /64 counts as one."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "address:unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        network = ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64))
        return f"address:{parsed.ipv4_mapped or network}"
    return f"address:{parsed}"


def of_stranger(username: str, address: str | None) -> list[str]:
    """What an attempt counts against."""
    everybody = of_address(address)
    if not is_username(username):
        return [everybody]
    where = everybody.removeprefix("address:")
    return [f"both:{username}@{where}", f"user:{username}", everybody]


def of_device(username: str, device: bytes) -> list[str]:
    return [f"device:{username}@{device.hex()}"]


def of_change(username: str) -> list[str]:
    """Changing the password, for which one is signed in already."""
    return [f"change:{username}"]


def wait_seconds(subject: str, failures: Sequence[int], now_ms: int) -> int:
    """How long this subject has to wait, given the times of its failures in the window."""
    return _seconds(free_at(subject, failures), now_ms)


def free_at(subject: str, failures: Sequence[int]) -> int:
    """From when on it may be tried again; 0: at any time."""
    kind, count = subject.partition(":")[0], len(failures)
    if kind == "user":
        if count < MOST_FAILURES:
            return 0
        delay = min(LONGEST_DELAY_SECONDS, 1 << min(count - MOST_FAILURES, 16))
        return max(failures) + delay * 1000
    most = MOST_OF_AN_ADDRESS if kind == "address" else MOST_FAILURES
    return 0 if count < most else sorted(failures)[-most] + WINDOW_MS


def in_words(seconds: int) -> str:
    """Rounded up: whoever waits that long gets in."""
    if seconds < _MINUTE:
        return "a second" if seconds == 1 else f"{seconds} seconds"
    minutes = -(-seconds // _MINUTE)
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _seconds(until: int, now_ms: int) -> int:
    return max(0, -(-(until - now_ms) // 1000))
