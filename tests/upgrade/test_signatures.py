"""A function that a released version calls answers it the same way: during a rolling upgrade servers
of two versions work on one database, and the older one finds the newer one's functions."""

import asyncio
import tarfile
from pathlib import Path

import asyncpg
import pytest

from upgrade.test_upgrade import FIXTURES, restore

Signatures = dict[str, set[tuple[str, str]]]  # by name: arguments with their defaults, and result

_ALL = """
SELECT proname AS name, pg_get_function_arguments(function.oid) AS arguments,
       pg_get_function_result(function.oid) AS result
FROM pg_proc AS function JOIN pg_language AS language ON language.oid = prolang
WHERE pronamespace = 'public'::regnamespace AND lanname IN ('sql', 'plpgsql')
"""


async def signatures(url: str) -> Signatures:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(_ALL)
    finally:
        await connection.close()
    found: Signatures = {}
    for row in rows:
        found.setdefault(row["name"], set()).add((row["arguments"], row["result"]))
    return found


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_functions_keep_their_signatures(fixture: Path, postgres_url: str) -> None:
    """One that must take or answer something else gets another name, and the old one stays for a
    release."""
    with tarfile.open(fixture) as archive:
        member = archive.extractfile("dump.sql")
        assert member
        dump = member.read().decode()

    async def both() -> tuple[Signatures, Signatures]:
        released = await restore(postgres_url, dump)
        return await signatures(released), await signatures(postgres_url)

    released, current = asyncio.run(both())
    assert released, "the fixture holds no functions"
    changed = {
        name: (sorted(released[name]), sorted(current[name]))
        for name in released.keys() & current.keys()
        if not released[name] <= current[name]
    }
    assert changed == {}
