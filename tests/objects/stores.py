"""Stores to test with, and what is true of them beside what they say."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]  # it has no stubs
from moto.server import ThreadedMotoServer

from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, RandomIds, SystemClock
from safelight.objects.blobs import Blobs
from safelight.objects.bucket import parse_url
from safelight.objects.local import LocalStore
from safelight.objects.reconcile import Originals, Reconcile, Standing
from safelight.objects.s3 import MARK_KEY, S3Store
from safelight.objects.store import ObjectStore, Place
from seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

CREDENTIALS = f"access_key_id={ACCESS_KEY}&secret_access_key={SECRET_KEY}&region=us-east-1"
_numbers = count(1)


class Watch(SystemClock):
    """A clock that shows what it is told to; without that, the time."""

    def __init__(self, ms: int | None = None) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return super().now_ms() if self.ms is None else self.ms


@dataclass
class Local:
    """A built-in store and what lies beneath it."""

    db: Database
    root: Path
    clock: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self.blobs = Blobs(self.root, RandomIds())
        self.units = units_of(self.db, self.clock)
        self.store = LocalStore(self.db, self.blobs, self.clock, RandomIds())

    def files(self) -> dict[str, bytes]:
        """Every file that looks like a blob."""
        found = {}
        for path in self.root.glob(f"??/{'?' * 64}"):
            with suppress(FileNotFoundError):  # removed while we look
                found[path.name] = path.read_bytes()
        return found

    def drafts(self) -> list[Path]:
        return list((self.root / "drafts").iterdir())

    async def check(self) -> None:
        """What must hold at any moment: every row has its file, and files are what they say."""
        files = self.files()
        assert {name: digest(content) for name, content in files.items()} == {n: n for n in files}
        alive = "SELECT sha256 FROM blobs WHERE state = 'live'"
        missing = {row["sha256"] for row in await self.db.fetch(alive)} - set(self.files())
        # Others may be at work: what is missing now must have stopped being alive before it went.
        assert missing.isdisjoint({row["sha256"] for row in await self.db.fetch(alive)})
        dangling = await self.db.fetch(
            "SELECT blob FROM objects JOIN blobs ON sha256 = blob WHERE state <> 'live'"
        )
        assert dangling == []


@dataclass
class Bucket:
    server: str
    name: str
    client: Any

    def url(self, prefix: str = "", **parameters: str) -> str:
        more = "".join(f"&{key}={value}" for key, value in parameters.items())
        return f"s3://{self.name}/{prefix}?endpoint={self.server}&{CREDENTIALS}{more}"

    def store(self, db: Database, spool: Path, clock: Watch, **parameters: str) -> S3Store:
        url = parse_url(self.url(**parameters))
        return S3Store(
            db, url.open(repeat=True), url.open(repeat=False), clock, RandomIds(), spool,
            telling=url.telling, where=url.where, storage_class=url.storage_class,
        )  # fmt: skip

    def keys(self) -> list[str]:
        """But for the mark that says whose it is."""
        found = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [entry["Key"] for entry in found if entry["Key"] != MARK_KEY]


@contextmanager
def s3_server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def make_bucket(server: str, name: str) -> Bucket:
    """Nobody's yet, also if an earlier test had it."""
    client = boto3.client(
        "s3", endpoint_url=server, region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip
    client.create_bucket(Bucket=name)
    client.delete_object(Bucket=name, Key=MARK_KEY)
    return Bucket(server, name, client)


def fresh_bucket(weed: Seaweed) -> Bucket:
    return make_bucket(weed.address, f"fresh-{next(_numbers)}")


def units_of(db: Database, clock: Clock) -> Units:
    """With a bus that nobody listens to."""
    return Units(db, Bus(db, "test"), clock)


class NoImages:
    """Objects that never were uploads."""

    async def standing(self, images: Sequence[str]) -> Mapping[str, Standing]:
        assert images
        return {}

    async def put_back(self, image: str) -> None:
        raise AssertionError(image)


async def settle(units: Units, store: ObjectStore, originals: Originals | None = None) -> int:
    """Long after the last request of the tickets that are open."""
    telling = getattr(store, "_place", "") == Place.TELLING_BUCKET
    await units.db.execute("UPDATE object_outbox SET due = clock_timestamp()")
    assert isinstance(store, S3Store)
    return await Reconcile(units, store, originals or NoImages(), telling=telling).run()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def events(db: Database) -> list[tuple[str, str, int]]:
    """What was told, in the order of the sequencers."""
    rows = await db.fetch("SELECT action, key, event_time FROM object_events ORDER BY sequencer")
    return [tuple(row) for row in rows]


async def deliveries(db: Database) -> list[dict[str, Any]]:
    rows = await db.fetch("SELECT payload FROM jobs WHERE kind = 'objects.deliver' ORDER BY id")
    return [row["payload"] for row in rows]
