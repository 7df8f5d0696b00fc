"""What must hold when the storm is over, seen from outside and in the tables. Pure but for `gather`."""

import asyncio
import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from safelight.wiring import MESSAGES
from storm.house import House
from storm.load import AUTHORIZATION, ORGANIZATION, Operation, Reader
from storm.worlds import World

ENDS = ("upload_stored", "image_superseded")
OURS = "kind IN ('ingest.offload', 'objects.deliver', 'classification.run')"
UNSETTLED = f"""
SELECT 'job ' || kind || ' ' || status || ' ' || coalesce(error ->> 'message', '') AS what
FROM jobs WHERE {OURS} AND status <> 'dead'
UNION ALL SELECT 'image ' || id || ' ' || status FROM images WHERE status IN ('UPLOADED', 'INGESTED')
UNION ALL SELECT 'entry ' || name || ' ' || classification_status
FROM uploads WHERE classification_status IN ('pending', 'running')
UNION ALL SELECT 'ticket ' || key FROM object_outbox
"""
# A bucket's tickets stay open for as long as a late request may be carried out, and what it did is
# mended when they end. The bucket is calm by now, so that this is as if that time had passed.
TIME_PASSES = """
WITH due AS (UPDATE object_outbox SET due = now() WHERE due > now())
UPDATE job_schedules SET next_at = now() WHERE name = 'objects.settle'
"""


@dataclass(frozen=True)
class Image:
    id: str
    name: str
    checksum: str
    status: str
    seq: int  # of the line that told of it


@dataclass
class Found:
    """What is there at the end."""

    images: dict[str, Image] = field(default_factory=dict)  # by checksum: each upload's is its own
    content: dict[str, str] = field(default_factory=dict)  # name to checksum, as HTTP has it
    listed: set[str] = field(default_factory=set)
    lines: list[tuple[int, str, str, str]] = field(
        default_factory=list
    )  # seq, type, subject, marker
    markers: set[str] = field(default_factory=set)  # of entries
    unsettled: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)  # where files and rows disagree


Violations = dict[str, list[str]]


def judge(operations: Sequence[Operation], readers: Sequence[Reader], found: Found) -> Violations:
    violations: dict[str, list[str]] = {
        "lost": list(_lost(operations, found)),
        "wrong version": list(_wrong(operations, readers, found)),
        "doubled": list(_doubled(found)),
        "stuck": found.unsettled,
        "dead letters": found.dead,
        "feed": [words for reader in readers for words in _feed(reader, found)],
        "kept though refused": [
            f"{one.name} of {one.image or one.checksum[:12]}: {one.why}"
            for one in operations
            if one.answer == "refused" and one.checksum in found.images
        ],
        "store": found.blobs,
    }
    return {kind: words for kind, words in violations.items() if words}


def _lost(operations: Iterable[Operation], found: Found) -> Iterable[str]:
    """Every acknowledged image is STORED, and its history says once what became of it."""
    ends = Counter(subject for _, kind, subject, _ in found.lines if kind in ENDS)
    for one in operations:
        if one.kind == "upload" and one.acknowledged:
            image = found.images.get(one.checksum)
            if image is None or image.id != one.image:
                yield f"{one.name}: {one.image} was acknowledged and has no record"
            elif image.status != "STORED":
                yield f"{image.name}: {image.id} was acknowledged and is {image.status}"
            elif not ends[f"image:{image.id}"]:
                yield f"{image.name}: {image.id} is STORED, and nothing says how"


def _wrong(
    operations: Iterable[Operation], readers: Sequence[Reader], found: Found
) -> Iterable[str]:
    by_name: defaultdict[str, list[Operation]] = defaultdict(list)
    for one in operations:
        image = found.images.get(one.checksum)
        if one.kind == "delete" and one.answer != "refused":
            by_name[one.name].append(one)
        elif image:
            by_name[image.name].append(bounded(one, image, readers))
    for name, some in by_name.items():
        allowed, is_there = admissible(some), found.content.get(name)
        if is_there not in allowed:
            yield f"{name} is {_short(is_there)}, not one of {sorted(map(_short, allowed))}"
    for name in found.listed ^ found.content.keys():
        yield f"{name} is {'' if name in found.listed else 'not '}listed, unlike its content"
    free = Counter(image.name for image in found.images.values() if image.name.startswith("free"))
    for name, times in free.items():
        if times > 1:
            yield f"{name} was given to {times} uploads that asked for a free name"


def bounded(one: Operation, image: Image, readers: Sequence[Reader]) -> Operation:
    """An unanswered upload that was recorded was so before anybody saw a later line."""
    if one.answer != "unknown":
        return one
    seen = []
    for reader in readers:
        place = bisect_left(reader.seen, (image.seq, 0.0))
        seen += [reader.seen[place][1]] if place < len(reader.seen) else []
    return Operation(**{**vars(one), "ended": min(seen, default=one.ended)})


def admissible(operations: Sequence[Operation]) -> set[str | None]:
    """What a name may hold: whatever no acknowledged operation began after the end of."""
    acknowledged = [one for one in operations if one.acknowledged]
    allowed: set[str | None] = set()
    for one in operations:
        if not any(other.began > one.ended for other in acknowledged):
            allowed.add(one.checksum or None)
    if not acknowledged:
        allowed.add(None)
    return allowed


def _doubled(found: Found) -> Iterable[str]:
    told = Counter(
        (kind, subject) for _, kind, subject, _ in found.lines if kind != "classification_updated"
    )
    for (kind, subject), times in told.items():
        if times > 1 and kind in {"upload_ingested", *ENDS}:
            yield f"{kind} of {subject}: {times} times"
    yield from _doubled_labels(found)


def _doubled_labels(found: Found) -> Iterable[str]:
    """An image whose place another one took, or that was gone, is started and told anew when it is
    back: that happens to those that a bucket's late write replaced, and that were put back."""
    standing: dict[str, str] = {}  # whose label a name has
    back: set[tuple[str, str]] = set()  # names and those who came back to them
    labelled = set()
    for _, kind, subject, marker in found.lines:
        if kind == "classification_updated":
            if marker in labelled and (subject, marker) not in back:
                yield f"classification_updated of {marker}, again"
            back.discard((subject, marker))
            standing[subject] = marker
            labelled.add(marker)
        elif kind == "upload_deleted":
            standing.pop(subject, None)
        elif kind == "classification_workflow_started" and standing.get(subject) != marker:
            standing.pop(subject, None)
            back.add((subject, marker))
    for marker in found.markers - labelled:
        yield f"the entry of {marker} was never told to be classified"


def _feed(reader: Reader, found: Found) -> Iterable[str]:
    told = [seq for seq, kind, _, _ in found.lines if kind in MESSAGES.types]
    heard = [seq for seq, _ in reader.seen]
    if heard != told:
        missed, extra = sorted(set(told) - set(heard)), sorted(set(heard) - set(told))
        yield (
            f"a socket heard {len(heard)} of {len(told)}: missed {missed[:5]}, "
            f"not in the table {extra[:5]}, in order {heard == sorted(set(heard))}"
        )


def _short(checksum: str | None) -> str:
    return checksum[:12] if checksum else "absent"


# Looking


async def gather(world: House, names: Iterable[str]) -> Found:
    found = Found()
    for row in await world.ask(
        "SELECT id, name, checksum, status, min(seq) AS seq FROM images "
        "JOIN activity ON subject = 'image:' || id AND type = 'upload_ingested' "
        "GROUP BY id, name, checksum, status"
    ):
        found.images[row["checksum"]] = Image(**row)
    for row in await world.ask(
        "SELECT seq, type, subject, coalesce(data ->> 'idempotencyKey', '') AS marker "
        "FROM activity WHERE organization = $1 ORDER BY seq", ORGANIZATION,
    ):  # fmt: skip
        found.lines.append(tuple(row))
    found.markers = {row[0] for row in await world.ask("SELECT idempotency_key FROM uploads")}
    found.unsettled = [row["what"] for row in await world.ask(UNSETTLED)]
    found.dead = [
        f"{row['kind']} {row['payload']}: {row['error']}"
        for row in await world.ask(
            "SELECT kind, payload::text, error::text FROM jobs WHERE status = 'dead'"
        )
    ]
    if isinstance(world, World) and world.store == "local":
        found.blobs = await _blobs(world)
    names = {*names, *(image.name for image in found.images.values())}
    await _look_from_outside(world.servers[-1].url, found, sorted(names))
    return found


async def _blobs(world: World) -> list[str]:
    """A live row promises its file, and a file is what its name says. Files without a row are what a
    crash left of a put; they are swept by age."""
    rows = await world.ask("SELECT sha256 FROM blobs WHERE state = 'live'")
    root = world.data_dir / "blobs"
    files = {path.name: path for path in root.glob("??/*")}
    live = {row["sha256"] for row in rows}
    wrong = [f"live blob {name} has no file" for name in live - files.keys()]
    wrong += [
        f"file {name} holds something else"
        for name, path in files.items()
        if hashlib.sha256(path.read_bytes()).hexdigest() != name
    ]
    return wrong


async def _look_from_outside(url: str, found: Found, names: Sequence[str]) -> None:
    path = f"/api/organizations/{ORGANIZATION}/uploads"
    async with httpx.AsyncClient(base_url=url, headers=AUTHORIZATION, timeout=30) as client:
        cursor: dict[str, Any] = {}
        while True:
            page = (
                (await client.get(path, params={"limit": 200, **cursor})).raise_for_status().json()
            )
            found.listed |= {item["name"] for item in page["items"]}
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        turn = asyncio.Semaphore(8)

        async def look(name: str) -> None:
            async with turn:
                answer = await client.get(f"{path}/{quote(name)}/content")
            if answer.status_code != 404:
                content = answer.raise_for_status().content
                found.content[name] = hashlib.sha256(content).hexdigest()

        await asyncio.gather(*map(look, names))
