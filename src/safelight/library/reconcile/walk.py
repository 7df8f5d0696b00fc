"""Goes through bucket, index and library side by side, an organization at a time, a page at a time.

Memory holds one page of each side, however many keys there are, and the place where the next begins
is a text. Listings come in the order of UTF-8 bytes, and so do the database's pages. A bucket that
orders otherwise makes more suspects, and no mistakes: a suspect is only looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from safelight.accounts import repo as accounts
from safelight.infra.db import Database
from safelight.library.reconcile import repo
from safelight.library.reconcile.compare import Indexed, Sides, Stretch, cut, suspects
from safelight.library.reconcile.mend import Name
from safelight.objects.keys import InvalidKey, split_key
from safelight.objects.store import BlobFiles, Listed, ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """Names that look wrong, how many differ and are young, of so many; and where the walk goes
    on, none at its end."""

    suspects: list[Name]
    young: int
    compared: int
    foreign: int
    position: str | None


@dataclass(frozen=True, slots=True)
class _Listing:
    """A page of a bucket: what may be uploads, what cannot, and the last name of a full one."""

    names: Mapping[str, Listed]
    foreign: Sequence[str]
    end: str | None


class Walk:
    """`files` are the built-in store's, whose index says what should be there."""

    def __init__(
        self, db: Database, store: ObjectStore, sides: Sides, files: BlobFiles | None, page: int
    ) -> None:
        self._db = db
        self._store = store
        self._sides = sides
        self._files = files
        self._page = page

    async def next(self, position: str, only: str | None, young: tuple[int, int]) -> Page:
        """`only`: of one organization."""
        organization, _, after = position.partition("/")
        organization = organization or only or await self._following("") or ""
        if not organization:
            return Page([], 0, 0, 0, None)
        listing = await self._listing(organization, after)
        stretch = await self._stretch(organization, after, listing)
        differing, early = suspects(stretch, self._sides, young)
        wrong = {*differing, *await self._lacking(stretch, young)}
        if stretch.until is not None:
            position_after: str | None = f"{organization}/{stretch.until}"
        else:
            following = None if only else await self._following(organization)
            position_after = None if following is None else f"{following}/"
        found = [Name(organization, name) for name in sorted(wrong)]
        foreign = [each for each in listing.foreign if stretch.reaches(each)]
        return Page(found, early, len(stretch.names), len(foreign), position_after)

    async def _following(self, organization: str) -> str | None:
        return await accounts.organization_after(self._db, organization)

    async def _stretch(self, organization: str, after: str, listing: _Listing) -> Stretch:
        indexed: Mapping[str, Indexed] = {}
        if self._sides is not Sides.TELLING:
            indexed = await repo.indexed(self._db, organization, after, self._page)
        entered = await repo.entered(self._db, organization, after, self._page)
        ends = [listing.end, self._end(indexed), self._end(entered)]
        return cut(listing.names, indexed, entered, [end for end in ends if end is not None])

    def _end(self, page: Mapping[str, T]) -> str | None:
        """Behind which there may be more."""
        return list(page)[-1] if len(page) == self._page else None

    async def _listing(self, organization: str, after: str) -> _Listing:
        """Other tools keep objects of their own in a bucket, whose keys no upload can have."""
        if self._sides is Sides.BUILT_IN:
            return _Listing({}, [], None)
        prefix = f"{organization}/"
        page = await self._store.list(prefix, prefix + after if after else "", self._page)
        rest = {one.key.removeprefix(prefix): one for one in page}
        names = {name: one for name, one in rest.items() if _can_be_upload(one.key)}
        foreign = [name for name in rest if name not in names]
        return _Listing(names, foreign, self._end(rest))

    async def _lacking(self, stretch: Stretch, young: tuple[int, int]) -> list[str]:
        """Of the built-in store: names whose file is not there."""
        if self._files is None:
            return []
        blobs = {
            name: one
            for name, one in stretch.indexed.items()
            if one.blob and not young[0] <= one.event_time <= young[1]
        }
        lacking = await self._files.lacking({one.blob or "": one.size for one in blobs.values()})
        return [name for name, one in blobs.items() if one.blob in lacking]


def _can_be_upload(key: str) -> bool:
    try:
        split_key(key)
    except InvalidKey:
        return False
    return True
