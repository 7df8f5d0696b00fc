"""The dead letters of everybody, or of one organization, with what they are about."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from safelight.http.paging import Cursors
from safelight.infra.queue.jobs import DeadLetter, JobId
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.watched import LetterGroup
from safelight.web.letters.shown import LetterGroupShown, LetterRow, Letters
from safelight.web.pictures import Thing, thing_of, with_pictures

_MOST_GROUPS, _OF_EACH, _PER_PAGE = 20, 3, 25
_PURPOSE = "letters-page"


@dataclass(frozen=True, slots=True)
class WhichLetters:
    """None: of every kind, of every code."""

    kind: str | None = None
    code: str | None = None
    cursor: str | None = None

    @property
    def alone(self) -> bool:
        return self.kind is not None and self.code is not None


def which_from(
    kind: Annotated[str | None, Query(max_length=100)] = None,
    code: Annotated[str | None, Query(max_length=200)] = None,
    cursor: str | None = None,
) -> WhichLetters:
    return WhichLetters(_sayable(kind), _sayable(code), cursor)


def _sayable(text: str | None) -> str | None:
    """No kind and no code has it in it; the database takes none either."""
    return None if text is None else text.replace("\0", "\ufffd")


WhichDep = Annotated[WhichLetters, Depends(which_from)]


@dataclass(frozen=True, slots=True)
class LetterReads:
    """`visible` are the organizations whose pictures the visitor may see."""

    queue: Queue
    cursors: Cursors
    organization: str | None
    visible: Collection[str]

    async def all(self, which: WhichLetters) -> Letters:
        groups = await self.queue.dead_letters.groups(_OF_EACH, self.organization)
        total = sum(group.count for group in groups)
        if which.alone:
            return await self._alone(which, groups, total)
        return Letters(await self._shown(groups[:_MOST_GROUPS]), total)

    async def _shown(self, groups: list[LetterGroup]) -> list[LetterGroupShown]:
        ids = [one for group in groups for one in group.newest]
        found = await self.queue.dead_letters.among(ids)
        rows = {row.letter.id: row for row in await self._rows(list(found.values()))}
        return [
            LetterGroupShown(group, [rows[JobId(one)] for one in group.newest if one in found])
            for group in groups
        ]

    async def _alone(self, which: WhichLetters, groups: list[LetterGroup], total: int) -> Letters:
        wanted = [g for g in groups if (g.kind, g.code) == (which.kind, which.code)]
        if not wanted:
            return Letters([], total, alone=True)
        purpose = f"{_PURPOSE}:{self.organization}:{which.kind}:{which.code}"
        place = self.cursors.read(purpose, which.cursor)
        before = (place[0], place[1]) if place else None
        found = await self._page(wanted[0], before, _PER_PAGE)
        rows = await self._rows(found[:_PER_PAGE])
        is_more = len(found) > _PER_PAGE
        more = self.cursors.make(purpose, rows[-1].letter.cursor) if is_more else None
        return Letters([LetterGroupShown(wanted[0], rows)], total, alone=True, more=more)

    async def _page(
        self, group: LetterGroup, before: tuple[int, int] | None, limit: int
    ) -> list[DeadLetter]:
        return await self.queue.dead_letters.page(
            organization=self.organization,
            kind=group.kind,
            code=group.code,
            before=before,
            limit=limit,
        )

    async def _rows(self, letters: list[DeadLetter]) -> list[LetterRow]:
        db = self.queue.db
        things = [await thing_of(db, one.organization or "", one.subject) for one in letters]
        known = [thing for thing in things if thing]
        pictured = iter(await with_pictures(db, known, self.visible))
        shown: list[Thing | None] = [next(pictured) if thing else None for thing in things]
        return [LetterRow(one, thing) for one, thing in zip(letters, shown, strict=True)]
