"""Rows that an older version wrote."""

import asyncio
import unicodedata
from pathlib import Path

import asyncpg

from emulators.runware import Plan, Runware
from generations.world import world
from infra.test_migrate import fresh
from safelight.generations.request import clean_tag
from safelight.infra.migrate import load, migrate

LAST_SPACE = 0x3000
SPACES = [
    char
    for char in map(chr, range(LAST_SPACE + 1))
    if char.isspace() and unicodedata.category(char) != "Cc"
]


async def test_tags_with_white_space_around_them(postgres_url: str) -> None:
    url = await fresh(postgres_url, "old_tags")
    await migrate(url, load()[:2], "")
    old = [
        "b",
        "b ",
        " c d ",
        "  ",
        *(f"{space}{number}{space}" for number, space in enumerate(SPACES)),
    ]
    db = await asyncpg.connect(url)
    try:
        await db.executemany(
            "INSERT INTO tags VALUES ('acme', $1, 'artifact', 'a')", [[tag] for tag in old]
        )
        await migrate(url)
        rows = await db.fetch("SELECT tag FROM tags")
        assert {row["tag"] for row in rows} == {clean_tag(tag) for tag in old if tag.strip()}
        assert len(rows) == len(old) - 2  # one of two alike, and one that was nothing
    finally:
        await db.close()


async def test_tags_of_a_generation_that_is_in_flight(
    database_url: str, directory: Path, vendor: Runware
) -> None:
    """Its tags are rows from its end on, so that the migration did not find them."""
    gate = asyncio.Event()
    vendor.default = Plan(gate=gate)
    async with (
        world(database_url, directory, **vendor.settings) as made,
        made.client() as client,
    ):
        generation = await client.ask(tags=["b"])
        old = ["b ", "b", "  ", "\u3000c d "]
        await made.db.execute("UPDATE generations_inflight SET tags = $1", old)
        assert (await client.show(generation))["tags"] == ["b", "c d"]
        gone = await client.http.delete(f"/generations/{generation}/tags/b")
        assert gone.status_code == 204
        gate.set()
        assert (await client.over(generation))["tags"] == ["c d"]
        found = await client.items("/generations", tag="c d")
        assert [one["id"] for one in found] == [generation]
