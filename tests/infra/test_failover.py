"""The server that takes writes is another one: everything goes on there by itself."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from conftest import reachable_directory
from faults.pair import Node, pair
from faults.relay import relay
from harness import picture
from inprocess import Application, application
from safelight.errors import Unavailable
from safelight.infra.bus import Bus
from safelight.infra.db import AWAY, Database
from safelight.infra.pooler import survey
from safelight.testing.waiting import told_by, until

pytestmark = pytest.mark.process
Pair = tuple[Node, Node]


@pytest.fixture
def nodes() -> Iterator[Pair]:
    with reachable_directory() as directory, pair(directory) as made:
        yield made


async def upload(app: Application, name: str) -> int:
    async with app.client() as client:
        content = picture(colour=f"#{sum(name.encode()):06x}")
        return (await client.post("/api/upload", files={"file": (name, content)})).status_code


async def labelled(app: Application, many: int) -> bool:
    done = "SELECT count(*) FROM uploads WHERE classification_status = 'done'"
    return bool(await app.db.fetchval(done) == many)


async def seen_working(app: Application) -> bool:
    """Its worker holds a lock, on this very server."""
    return bool(
        await app.db.fetchval(
            "SELECT count(*) FROM job_workers AS w JOIN pg_locks AS l "
            "ON l.locktype = 'advisory' AND l.classid = 8 "
            "AND l.objid::bigint = (hashtext(w.owner)::bigint & 4294967295)"
        )
    )


async def test_of_two_hosts_one_dies(nodes: Pair, tmp_path: Path) -> None:
    """The standby stands first in the address: it is not settled on before it takes writes."""
    first, second = nodes
    async with AsyncExitStack() as stack:
        _, to_second = await stack.enter_async_context(relay(second.url))
        _, to_first = await stack.enter_async_context(relay(first.url))
        parts = urlsplit(to_second)
        both = f"{parts.netloc},127.0.0.1:{urlsplit(to_first).port}"
        url = parts._replace(netloc=both).geturl()
        app = await stack.enter_async_context(application(url, tmp_path, worker=True))
        assert await upload(app, "before.jpg") == 201
        await until(lambda: labelled(app, 1))
        await until(lambda: second.has_all_of(first))
        with told_by(app.registry.get(Bus), "anything") as news:
            first.kill()
            await second.promote()
            await news.next()  # it listens again, and asks to look anew

            async def works() -> bool:
                return await upload(app, "after.jpg") == 201

            await until(works)
            elsewhere = Bus(app.db, "elsewhere")
            elsewhere.announce("anything", "news")
            await until(lambda: "news" in news.details)
            await elsewhere.stop()
        await until(lambda: seen_working(app))
        await until(lambda: labelled(app, 2))


async def test_a_name_that_moves(nodes: Pair) -> None:
    """The old server is back as a standby before the name leads to the new one: nobody settles there."""
    first, second = nodes
    async with relay(first.url) as (name, url):
        db = await Database.open(url, pool_size=2)
        bus = Bus(db, "ours")
        await bus.start()
        await until(lambda: second.has_all_of(first))
        first.stop()
        await second.promote()
        first.start(following=second)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await db.check()
        with told_by(bus, "anything") as news:
            name.lead_to(second.url)
            await news.next()
        await db.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
        await bus.stop()
        db.terminate()


async def test_a_standby_alone_is_no_place_to_start(nodes: Pair) -> None:
    with pytest.raises(Unavailable, match="there is only a standby"):
        await survey(nodes[1].url, None)


async def test_connections_to_what_takes_no_writes_any_more(nodes: Pair) -> None:
    first, second = nodes
    async with relay(second.url) as (name, url):
        db = await Database.open(f"{url}?target_session_attrs=any", pool_size=3)
        async with db.connection(), db.connection():
            pass
        name.lead_to(first.url)
        with pytest.raises(AWAY) as met:
            await db.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
        assert isinstance(met.value, asyncpg.ReadOnlySQLTransactionError)
        await db.execute("INSERT INTO kv (key, value) VALUES ('a', '1')")
        db.terminate()
