"""Who is behind a credential, kept in mind, so that a request with one that was seen before costs
no statement.

Guarantees
- Whatever changes what a credential grants makes this forget all of them. In the process that made
  the change at once: each unit of work of accounts announces it, before anybody is answered. In all
  others by triggers on the tables that credentials are read from, whoever writes to them: the news
  commits with the change (migrations/, `credentials_changed`).
- Nothing is served from here while news may have gone unheard for a second: the bus says how far it
  has heard. Without a database, or a connection to listen on, the database is asked as if nothing
  were kept. When listening begins again, all is forgotten.
- What was read before all was forgotten is not kept after it: whoever asks the database says so
  first.
- What ends by the clock is kept until then at most, and nothing for longer than a minute: should
  somebody change rows past the triggers, that is how long it goes unseen.

All is forgotten together, since a change of one row can cut many credentials, and asking for each
again is what every request cost before. A credential that is unknown is not kept: whoever tries
many asks the database each time, and takes nobody's place here.
"""

from collections import OrderedDict
from dataclasses import dataclass

from safelight.accounts.access import Caller
from safelight.infra.bus import Bus

CREDENTIALS = "credentials"  # the triggers say the same word
MOST = 10_000
TRUSTED_SECONDS = 1.0
LONGEST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Asked:
    """That the database is asked, and when."""

    at: int
    times: int  # that all had been forgotten by then


@dataclass(frozen=True, slots=True)
class _Kept:
    caller: Caller
    since: int
    until: int


class KnownCallers:
    """One per process, by the digests of credentials."""

    def __init__(self, bus: Bus, most: int = MOST) -> None:
        self._bus = bus
        self._most = most
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()  # the least recently used first
        self._times = 0
        bus.subscribe(CREDENTIALS, lambda _: self._forget(), resync=self._forget)

    def find(self, digest: bytes, now: int) -> Caller | None:
        """None: ask the database."""
        kept = self._kept.get(digest)
        if kept is None or not kept.since <= now < kept.until:
            return None
        if self._bus.behind() >= TRUSTED_SECONDS:
            return None
        self._kept.move_to_end(digest)
        return kept.caller

    def asking(self, now: int) -> Asked:
        """Before the database is asked what will be kept."""
        return Asked(now, self._times)

    def keep(self, digest: bytes, caller: Caller, asked: Asked, until: int | None) -> None:
        """What the database said, unless something has changed since it was asked."""
        if asked.times != self._times:
            return
        longest = asked.at + LONGEST_MS
        end = longest if until is None else min(until, longest)
        self._kept[digest] = _Kept(caller, asked.at, end)
        self._kept.move_to_end(digest)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _forget(self) -> None:
        self._times += 1
        self._kept.clear()
