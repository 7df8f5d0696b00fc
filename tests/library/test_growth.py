"""What is asked of a library costs what is answered, not what there is.

Two libraries, one ten times as large: each statement may touch half as many pages again in the
larger one, and a few for the depth of its indexes. Nothing here measures time. Plans are generic, as
they are in a server that has run for a while, and the figures the planner has are true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import asyncpg
import pytest

from conftest import with_database
from library.many import Many, fill, labels, settle, wait
from library.touched import Touched, touching
from safelight.infra import activity
from safelight.infra import feed as feeds
from safelight.infra.activity import Unit
from safelight.infra.history import Line
from safelight.infra.queue import repo as queue
from safelight.ingest import repo as ingest
from safelight.library import repo
from safelight.library.entry import EntryStatus, LibraryFilter, RunStatus
from safelight.library.lists import repo as lists
from safelight.library.order import Mark, Stamp, Tombstone
from safelight.library.reconcile import repo as reconcile
from safelight.objects.keys import prefix_query
from safelight.objects.store import Cleared, Place

SMALL, LARGE = 2_000, 15_000
FACTOR, DEPTH = 1.5, 60
PUBLIC = ["upload_ingested", "upload_stored", "classification_updated", "upload_deleted"]
Case: TypeAlias = Callable[[Touched, Many], Awaitable[Any]]


def page(
    text: str | None = None,
    *,
    label: str | None = None,
    status: EntryStatus | None = None,
    after: float | None = None,
) -> Case:
    """`after`: how far down the list, as the part of all entries that is newer."""
    wanted = LibraryFilter(label, text and prefix_query(text), status)

    async def ask(db: Touched, many: Many) -> Any:
        before = None if after is None else (many.time(int(many.count * (1 - after))), "")
        return await lists.page(db.db, many.organization, wanted, before, 50)

    return ask


def feed(types: list[str] | None, after: float) -> Case:
    async def ask(db: Touched, many: Many) -> Any:
        place = int(7 * many.count * after)
        return await feeds.lines(db.db, many.organization, after=place, limit=51, types=types)

    return ask


def letters(organization: str | None, *, deep: bool = False) -> Case:
    async def ask(db: Touched, many: Many) -> Any:
        rows = await db.connection_.fetch(
            "SELECT (extract(epoch FROM died_at) * 1000000)::bigint, id FROM jobs "
            "WHERE status = 'dead' ORDER BY died_at OFFSET $1 LIMIT 1",
            many.count // 20,
        )
        place = tuple(rows[0]) if deep else None
        return await queue.dead_letters(db.db, organization, None, place, 51)

    return ask


async def same_bytes(db: Touched, many: Many) -> Any:
    rows = await db.connection_.fetch("SELECT checksum FROM images WHERE ordinal % 40 = 0 LIMIT 40")
    asked = [row["checksum"] for row in rows]
    return await lists.with_checksums(db.db, many.organization, asked)


async def dates(db: Touched, many: Many) -> Any:
    return await lists.dated(db.db, many.organization, [await existing(db, many), "nothing.jpg"])


async def existing(db: Touched, many: Many, number: int = 1234) -> str:
    name: str = await db.connection_.fetchval(
        "SELECT name FROM uploads WHERE organization = $1 AND event_time = $2",
        many.organization,
        many.time(number),
    )
    return name


async def history(db: Touched, many: Many) -> Any:
    subject = f"upload:{await existing(db, many)}"
    return await activity.of_subject(db.db, many.organization, subject, after=0, limit=50)


async def told(db: Touched, many: Many) -> Any:
    subjects = [f"upload:{await existing(db, many)}", "image:img_nothing"]
    return await activity.latest(db.db, many.organization, subjects, before=None, limit=50)


async def following(db: Touched, many: Many) -> Any:
    place = many.time(many.count // 2), ""
    return await lists.following(db.db, many.organization, LibraryFilter(), place, 121)


def newer(text: str | None = None, **wanted: Any) -> Case:
    """Half-way down."""
    filters = LibraryFilter(query=text and prefix_query(text), **wanted)

    async def ask(db: Touched, many: Many) -> Any:
        place = many.time(many.count // 2), ""
        return await lists.newer(db.db, many.organization, filters, place)

    return ask


async def delete(db: Touched, many: Many) -> Any:
    name = await existing(db, many)
    line = Line(f"upload:{name}", "upload_delete_requested", {})
    cleared = Cleared(Place.BLOB)
    return await repo.delete(db.db, many.organization, name, cleared, line, many.end)


async def remove(db: Touched, many: Many) -> Any:
    unit = Unit(db.db, many.organization, many.end)  # type: ignore[arg-type]
    stamp = Stamp(many.end, None, "safelight")
    return await repo.remove(unit, await existing(db, many), Tombstone(stamp))


async def overwrite(db: Touched, many: Many) -> Any:
    unit = Unit(db.db, many.organization, many.end)  # type: ignore[arg-type]
    mark = Mark(Stamp(many.end, None, "safelight"), "another", "e")
    return await repo.mark(unit, await existing(db, many), mark, None, {})


async def new(db: Touched, many: Many) -> Any:
    unit = Unit(db.db, many.organization, many.end)  # type: ignore[arg-type]
    mark = Mark(Stamp(many.end, None, "safelight"), "another", "e")
    return await repo.mark(unit, "IMG_20300101_000000.jpg", mark, None, {})


def sql(statement: str, *values: Any) -> Case:
    async def ask(db: Touched, many: Many) -> Any:
        return await db.fetch(statement, *values)

    return ask


_CLAIM = "SELECT * FROM job_take($1::text[], $2::int[], $3::text[], '', 'w', $4::text::interval)"
_ATTEND = "SELECT * FROM job_attend($1::text[], '', '{}', 'w', '{}', false)"
_COMMON, _RARE = labels()[1], labels()[700]
CASES: dict[str, Case] = {
    "the newest": page(),
    "half-way down": page(after=0.5),
    "the oldest": page(after=0.995),
    "done": page(status=RunStatus.DONE),
    "done, half-way down": page(status=RunStatus.DONE, after=0.5),
    "pending": page(status=RunStatus.PENDING),
    "pending, half-way down": page(status=RunStatus.PENDING, after=0.5),
    "running": page(status=RunStatus.RUNNING),
    "failed": page(status=RunStatus.FAILED),
    "failed, half-way down": page(status=RunStatus.FAILED, after=0.5),
    "a common label": page(label=_COMMON),
    "a common label, half-way down": page(label=_COMMON, after=0.5),
    "a rare label": page(label=_RARE),
    "an unknown label": page(label="NOTHING"),
    "a label that is done": page(label=_COMMON, status=RunStatus.DONE),
    "an unknown label, pending": page(label="NOTHING", status=RunStatus.PENDING),
    "a word of nearly all": page("jpg"),
    "a word of nearly all, half-way down": page("jpg", after=0.5),
    "a word of nearly all, oldest": page("jpg", after=0.995),
    "a word of some": page("wedding"),
    "a word of some, half-way down": page("wedding", after=0.5),
    "a word of a label": page("goldfish"),
    "a prefix of a few words": page("wed"),
    "a prefix of many words": page("dsc"),
    "a prefix of many words that are old": page("dsc000000"),
    "a word of one": page("dsc00000013"),
    "a word of none": page("nothinghere"),
    "two words of many": page("img jpg"),
    "two words, one of none": page("img nothinghere"),
    "two words, one of a label": page("img tench"),
    "a word and a label": page("jpg", label=_COMMON),
    "a word of none and a label": page("nothinghere", label=_COMMON),
    "a word and done": page("wedding", status=RunStatus.DONE),
    "a word and failed": page("jpg", status=RunStatus.FAILED),
    "a word of none and pending": page("nothinghere", status=RunStatus.PENDING),
    "the next newer": newer(),
    "the next newer of a label": newer(label=_COMMON),
    "the next newer of a rare label": newer(label=_RARE),
    "the next newer that failed": newer(status=RunStatus.FAILED),
    "the next newer of a word of nearly all": newer("jpg"),
    "a page before the next newer": following,
    "bytes that are here": same_bytes,
    "when names were made": dates,
    "the feed where it ends": feed(PUBLIC, 1),
    "the feed from its beginning": feed(PUBLIC, 0),
    "the feed of everything": feed(None, 0.5),
    "the feed of a type that is rare": feed(["upload_failed"], 0),
    "the feed of a type that is not there": feed(["token_made"], 0),
    "the bounds of the feed": lambda db, many: feeds.bounds(db.db, many.organization),
    "a history": history,
    "a history, newest first": told,
    "the newest upload of a name": lambda db, _: ingest.newest_of(db.db, "acme", "nothing.jpg"),
    "letters of everybody": letters(None),
    "letters of everybody, deep": letters(None, deep=True),
    "letters of one": letters("org-1"),
    "letters of one, deep": letters("org-1", deep=True),
    "letters of one with none": letters("acme"),
    "a claim": sql(_CLAIM, ["work"], [4], ["org-3"], "60 s"),
    "claims of many organizations": sql(_CLAIM, ["many"], [4], ["org-3"], "60 s"),
    "nothing to claim": sql(_CLAIM, ["none"], [4], [""], "60 s"),
    "attending": sql(_ATTEND, ["work", "many", "none"]),
    "who works": sql("SELECT * FROM jobs_at_work($1, $2)", "work", "org-1"),
    "how a job stands": sql("SELECT * FROM job_standing($1, $2)", "work", "work77"),
    "reconciling the index": lambda db, _: reconcile.indexed(db.db, "acme", "D", 100),
    "reconciling entries": lambda db, _: reconcile.entered(db.db, "acme", "D", 100),
    "a delete": delete,
    "the end of an entry": remove,
    "an overwrite": overwrite,
    "a new entry": new,
    "a charge": sql("SELECT quota_upload($1, 1, 1)", "acme"),
}


async def _make(url: str, name: str, count: int) -> str:
    administrator = await asyncpg.connect(with_database(url, "postgres"))
    await administrator.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await administrator.execute(f"CREATE DATABASE {name} TEMPLATE safelight STRATEGY file_copy")
    await administrator.close()
    connection = await asyncpg.connect(with_database(url, name))
    await fill(connection, "acme", count, of_each=20)
    await fill(connection, "other", count // 3, of_each=20)  # its lines come after
    await wait(connection, "work", 1, count)
    await wait(connection, "many", 100, count)
    await connection.execute(
        "INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, died_at) "
        "SELECT 'x', 'org-' || (1 + n % 2), '', '{}', 0, 'dead', now(), "
        "now() - make_interval(secs => n) FROM generate_series(1, $1::integer) AS n",
        count // 10,
    )
    await settle(connection)
    await connection.close()
    return with_database(url, name)


@pytest.fixture(scope="module")
def libraries(postgres_url: str) -> Iterator[dict[int, str]]:
    async def make() -> dict[int, str]:
        return {size: await _make(postgres_url, f"many_{size}", size) for size in (SMALL, LARGE)}

    yield asyncio.run(make())
    asyncio.run(_drop(postgres_url))


async def _drop(url: str) -> None:
    administrator = await asyncpg.connect(with_database(url, "postgres"))
    for size in (SMALL, LARGE):
        await administrator.execute(f"DROP DATABASE many_{size} WITH (FORCE)")
    await administrator.close()


@pytest.mark.parametrize("name", CASES)
async def test_what_is_asked_costs_what_is_answered(libraries: dict[int, str], name: str) -> None:
    pages, rows = {}, {}
    for size, url in libraries.items():
        async with touching(url) as db:
            found = await CASES[name](db, Many("acme", size))
            pages[size], rows[size] = db.pages, len(found) if isinstance(found, list) else 1
    answered = max(1.0, rows[LARGE] / max(rows[SMALL], 1))
    assert pages[LARGE] <= FACTOR * answered * pages[SMALL] + DEPTH, (pages, rows)
