"""From the history of an organization to the stream: the newest, what is older or newer than a
place, and what is around one."""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.infra import activity, feed
from safelight.infra.db import Database
from safelight.infra.history import Activity
from safelight.library import repo as library
from safelight.library.entry import LibraryFilter
from safelight.library.lists import repo as lists
from safelight.live.messages import Messages
from safelight.objects.keys import prefix_query
from safelight.web.inspector.stream import Happening, happening, name_of, told
from safelight.web.inspector.topics import StreamFilter

PER_PAGE = 100
_AHEAD = 20  # of what is newer than a moment that was asked for
_MOST_NAMES = 20
_END = 2**63 - 1
_SUBJECTS = (
    "image", "upload", "submission", "approval", "generation", "artifact", "user", "token", "job",
    "policy", "blocklist", "organization", "quotas", "retention",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """At most one of them; none is the newest end."""

    before: int | None = None
    after: int | None = None
    around: int | None = None

    @property
    def newest(self) -> bool:
        return self == StreamPlace()


@dataclass(frozen=True, slots=True)
class StreamPage:
    """`first` and `last` are the ends of what was read, shown or not; `older` and `newer` say
    whether there is more beyond them."""

    lines: list[Happening]
    first: int | None
    last: int | None
    older: bool
    newer: bool


@dataclass(frozen=True, slots=True)
class Stream:
    db: Database
    messages: Messages
    organization: str
    admin: bool

    async def page(self, wanted: StreamFilter, place: StreamPlace) -> StreamPage:
        subjects = await self._subjects(wanted.q)
        if place.after is not None:
            later = await self._later(wanted, subjects, place.after, PER_PAGE + 1)
            found, newer = later[:PER_PAGE][::-1], len(later) > PER_PAGE
            return await self._shown(wanted, found, older=True, newer=newer)
        ahead: list[Activity] = []
        before = place.before or _END
        if place.around is not None:
            before = place.around + 1
            ahead = await self._later(wanted, subjects, place.around, _AHEAD)
        back = await self._earlier(wanted, subjects, before, PER_PAGE + 1)
        found, older = [*ahead[::-1], *back[:PER_PAGE]], len(back) > PER_PAGE
        return await self._shown(wanted, found, older=older, newer=not place.newest)

    async def at(self, moment: int) -> int:
        """The seq before which everything is older."""
        return await feed.place_at(self.db, self.organization, moment)

    async def _earlier(
        self, wanted: StreamFilter, subjects: list[str] | None, before: int, limit: int
    ) -> list[Activity]:
        types = wanted.types(self.messages, admin=self.admin)
        if subjects is None:
            floor, _ = await feed.bounds(self.db, self.organization)
            found = await feed.earlier(
                self.db, self.organization, before=before, limit=limit, types=types
            )
            return [line for line in found if line.seq > floor]
        found = await activity.latest(
            self.db, self.organization, subjects, before=before, limit=limit - 1
        )
        return [line for line in found if types is None or line.type in types]

    async def _later(
        self, wanted: StreamFilter, subjects: list[str] | None, after: int, limit: int
    ) -> list[Activity]:
        if subjects is None:
            types = wanted.types(self.messages, admin=self.admin)
            return await feed.lines(
                self.db, self.organization, after=after, limit=limit, types=types
            )
        found = await self._earlier(wanted, subjects, _END, 2 * limit)
        return [line for line in reversed(found) if line.seq > after][:limit]

    async def _subjects(self, q: str) -> list[str] | None:
        """Of a name: those that begin so, too, and those whose label does."""
        if not q:
            return None
        if q.partition(":")[0] in _SUBJECTS and ":" in q:
            return [q]
        words = prefix_query(q)
        found = []
        if words is not None:
            looked_for = LibraryFilter(None, words, None)
            found = await lists.page(self.db, self.organization, looked_for, None, _MOST_NAMES)
        return list(dict.fromkeys([f"upload:{q}", *(f"upload:{one.name}" for one in found)]))

    async def _shown(
        self, wanted: StreamFilter, found: Sequence[Activity], *, older: bool, newer: bool
    ) -> StreamPage:
        lines = told(found, inner=wanted.inner)
        names = sorted({name for line in lines if (name := name_of(line))})
        entries = await library.of_names(self.db, self.organization, names) if names else {}
        shown = [happening(self.organization, line, entries) for line in lines]
        first, last = (found[0].seq, found[-1].seq) if found else (None, None)
        return StreamPage(shown, first, last, older, newer)
