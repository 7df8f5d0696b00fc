"""Rows that an older version wrote."""

import sys
import unicodedata

import asyncpg

from infra.test_migrate import fresh
from safelight.generations.request import clean_tag
from safelight.infra.migrate import load, migrate

SPACES = [
    char
    for char in map(chr, range(sys.maxunicode + 1))
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
