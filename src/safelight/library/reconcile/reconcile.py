"""Looks, now and then, whether the library is what the store holds, and puts right what is not.

Events are delivered at least once and a run ends with its job, so there should be nothing to find.
There is after a dead letter that nobody redrove, a notification that a bucket never sent, a row
that somebody removed by hand. Two walks look for it, one over the objects and one over the entries,
each a page of an index at a time, until all is seen or the time is up; the next goes on there.

Why it can run beside everything else: a page only raises suspicion. Then the store is asked, and
under the name's lock everything is looked at again. Our own events are made under that lock, so
one that is not delivered yet has a job that lives, and then nothing is touched. What is wrong is
told again through the door of the first time (an event and its delivery), so that order and
tombstones hold; nothing is written past them.

Of a bucket that tells by itself the bucket alone knows: its listing is compared with the entries,
and each entry's object is asked for, as many as there is time for. Nothing is taken for gone that
the bucket has not said to be gone. Gap: the same bytes uploaded again under the same name look
alike in a listing, so a lost notification of that is not found; and a bucket may date an upload in
parts by its beginning, so a delete in the middle of it, heard after us, outranks it until the
upload's own notification comes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, assert_never

import structlog
from prometheus_client import Counter

from safelight.accounts import repo as accounts
from safelight.infra import kv
from safelight.infra.activity import Unit
from safelight.infra.base import Base
from safelight.infra.db import AWAY
from safelight.infra.history import SYSTEM, Line
from safelight.infra.queue.jobs import TOPIC, JobKind
from safelight.library import repo as library
from safelight.library.order import Mark, Snapshot, StoreNow
from safelight.library.project import lost_run
from safelight.library.reconcile import repo
from safelight.library.reconcile.mend import (
    Mend,
    Name,
    Page,
    RestartRun,
    SayFailed,
    TellCreated,
    TellDeleted,
    decide_mend,
)
from safelight.objects import repo as objects
from safelight.objects.events import Action
from safelight.objects.jobs import DELIVER
from safelight.objects.keys import InvalidKey, owner_of
from safelight.objects.notifications import repo as events
from safelight.objects.store import Listed, NoSuchObject, ObjectInfo, ObjectStore

YOUNG_MS = 5 * 60_000
_SECONDS = 3.0  # for each walk, every ten minutes
_PAGE = 1000
_LISTED = 1000
_ASKED = 50  # a page of entries whose objects are all asked for

NextPage = Callable[[str, tuple[int, int]], Awaitable[Page]]


class LibraryReconcile:
    def __init__(
        self,
        base: Base,
        store: ObjectStore,
        runs: JobKind[Any],
        *,
        telling: bool,
        young_ms: int = YOUNG_MS,
        page: int = _PAGE,
    ) -> None:
        self._units = base.units
        self._db = base.db
        self._clock = base.clock
        self._queue = base.queue
        self._store = store
        self._runs = runs
        self._telling = telling
        self._young_ms = young_ms
        self._page = page
        self._mended = Counter(
            "safelight_library_reconciled_total",
            "Entries that were not what the store holds and were put right, by what was done.",
            ("what",),
            registry=base.metrics.registry,
        )

    async def run(self) -> int:
        """Returns how many names were put right."""
        if self._telling:
            walks = {"objects": self._listed_page, "entries": self._asked_page}
        else:
            walks = {"objects": self._objects_page, "entries": self._entries_page}
        return sum([await self._walk(name, next_page) for name, next_page in walks.items()])

    # Walking

    async def _walk(self, walk: str, next_page: NextPage) -> int:
        until = self._clock.monotonic() + _SECONDS
        key, mended, over = f"library.reconcile:{walk}", 0, False
        position = await kv.get(self._db, key, now=self._clock.now_ms()) or ""
        while not over:
            now = self._clock.now_ms()
            page = await next_page(position, self._young(now))
            mended += await self._mend_all(page.suspects)
            position = page.position or ""
            await kv.put(self._db, key, position, now=now)
            over = not position or self._clock.monotonic() >= until
        return mended

    def _young(self, now: int) -> tuple[int, int]:
        return now - self._young_ms, now + self._young_ms

    async def _objects_page(self, after: str, young: tuple[int, int]) -> Page:
        return await repo.objects_page(self._db, after, self._page, young)

    async def _entries_page(self, after: str, young: tuple[int, int]) -> Page:
        return await repo.entries_page(self._db, after, self._page, young)

    async def _asked_page(self, after: str, young: tuple[int, int]) -> Page:
        rows = await repo.entries(self._db, after, _ASKED, young)
        suspects = []
        for name, etag, idle in rows:
            held = await self._held(name.key) if etag is not None else None
            if etag is not None and (idle or held is None or held.etag != etag):
                suspects.append(name)
        return Page(suspects, rows[-1][0].key if len(rows) == _ASKED else None)

    async def _listed_page(self, after: str, young: tuple[int, int]) -> Page:
        listed = await self._store.list(after=after, limit=_LISTED)
        names = [(_name(one), one) for one in listed]
        organizations = sorted({name.organization for name, _ in names if name})
        known = await accounts.known_organizations(self._db, organizations)
        held = [
            (name, one.etag)
            for name, one in names
            if name and name.organization in known and not _lies_in(young, one)
        ]
        suspects = await repo.differing(self._db, held)
        return Page(suspects, listed[-1].key if listed else None)

    # Mending

    async def _mend_all(self, suspects: Sequence[Name]) -> int:
        if not suspects:
            return 0
        pairs = [(one.organization, one.name) for one in suspects]
        busy = await self._queue.living(self._db, DELIVER, "name", pairs)
        mended = 0
        for one in suspects:
            if (one.organization, one.name) not in busy:
                mended += await self._try(one)
        return mended

    async def _try(self, one: Name) -> bool:
        """A name that cannot be put right keeps nobody from looking at the next."""
        try:
            done = await self._mend(one)
        except AWAY:
            raise
        except Exception:  # noqa: BLE001 - whatever it was, it is this name's
            structlog.get_logger().exception("library.not_reconciled", upload=one.key)
            return False
        if done:
            self._mended.labels(done.what).inc()
            structlog.get_logger().warning("library.reconciled", upload=one.key, found=done.found)
        return done is not None

    async def _mend(self, one: Name) -> Mend | None:
        held = await self._held(one.key)
        if held is not None and _lies_in(self._young(self._clock.now_ms()), held):
            return None
        async with self._units.open(one.organization) as unit:
            found = await library.look(unit, one.name)
            info = held if self._telling else await self._indexed(unit, one.key)
            if _now(info) != _now(held) or await self._is_on_its_way(unit, one):
                return None
            mend = decide_mend(found, _now(info), await self._letter(unit, one, found))
            if mend is not None:
                line = {"name": one.name, "reason": mend.found, "actor": SYSTEM}
                unit.tell(Line(f"upload:{one.name}", "upload_reconciled", line))
                await self._carry_out(unit, one, found, mend, info)
        return mend

    async def _carry_out(
        self, unit: Unit, one: Name, found: Snapshot, mend: Mend, info: ObjectInfo | None
    ) -> None:
        match mend:
            case TellCreated():
                assert info is not None  # noqa: S101 - it is what the store holds
                time = _end_of_second(info.event_time) if self._telling else info.event_time
                await self._tell(unit, one, Action.CREATED, time, info)
            case TellDeleted(mark):
                # Right after what the entry stands for: whatever is newer outranks it.
                await self._tell(unit, one, Action.DELETED, mark.stamp.event_time + 1, None)
            case RestartRun(mark):
                unit.tell(*lost_run(one.name, found))
                run = await library.restart(unit, one.name, mark.idempotency_key)
                unit.announce(TOPIC, self._runs.name)
                data = {**_facts(one, mark, run), "actor": SYSTEM}
                unit.tell(Line(f"upload:{one.name}", "classification_workflow_started", data))
            case SayFailed(mark, error):
                run = found.run_number or 0
                await repo.say_failed(unit, one.name, mark, run, error)
                if error is not None:
                    data = {**_facts(one, mark, run), "error": dict(error), "final": True}
                    unit.tell(Line(f"upload:{one.name}", "classification_error", data))
            case _:
                assert_never(mend)

    async def _tell(
        self, unit: Unit, one: Name, action: Action, time: int, info: ObjectInfo | None
    ) -> None:
        """A dead letter of an event that says the same is needless from now on."""
        await events.tell_again(unit.connection, action, one.key, time, info, unit.now)
        unit.announce(TOPIC, DELIVER.name)
        letters = self._queue.dead_letters
        for letter in await letters.about(unit, DELIVER, {"name": one.name}):
            event = await objects.event(unit.connection, letter.payload["eventId"])
            if event is None or event.action is action:
                await letters.discard_in(unit, letter, "What it was to tell is told again.")

    async def _letter(self, unit: Unit, one: Name, found: Snapshot) -> Mapping[str, Any] | None:
        """The error of the dead letter of the entry's very run."""
        if found.row is None or found.status is None or not found.status.under_way:
            return None
        run = _facts(one, found.row, found.run_number or 0)
        letters = await self._queue.dead_letters.about(unit, self._runs, run)
        return letters[0].error if letters else None

    async def _is_on_its_way(self, unit: Unit, one: Name) -> bool:
        pair = (one.organization, one.name)
        return bool(await self._queue.living(unit.connection, DELIVER, "name", [pair]))

    async def _held(self, key: str) -> ObjectInfo | None:
        try:
            return await self._store.head(key)
        except NoSuchObject:
            return None

    async def _indexed(self, unit: Unit, key: str) -> ObjectInfo | None:
        found = await objects.find(unit.connection, key)
        return found[0] if found else None


def _now(info: ObjectInfo | None) -> StoreNow | None:
    return StoreNow(info.etag, info.metadata.get("idempotencyKey")) if info else None


def _lies_in(young: tuple[int, int], one: ObjectInfo | Listed) -> bool:
    return young[0] <= one.event_time <= young[1]


def _end_of_second(time: int) -> int:
    """A bucket dates its objects in whole seconds. As in notifications that counts as the second's
    end: otherwise a delete of the same second, heard after us, would outrank the upload after it.
    Nothing newer is of that second any more, because what is young is not told of."""
    return time - time % 1000 + 999


def _facts(one: Name, mark: Mark, run: int) -> dict[str, Any]:
    return {"name": one.name, "idempotencyKey": mark.idempotency_key, "run": run}


def _name(listed: Listed) -> Name | None:
    """Of an upload; other tools keep objects of their own in a bucket."""
    try:
        organization, name = owner_of(listed.key)
    except InvalidKey:
        return None
    return Name(organization, name) if organization and name else None
