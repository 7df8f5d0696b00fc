"""This version starts on what every earlier one left, and carries its work on."""

import asyncio
import hashlib
import json
import tarfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from conftest import _numbers, with_database
from harness import eventually, running

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.tar.gz"))
OVER = "/api/organizations/default"
LIBRARY = f"{OVER}/uploads"


async def restore(postgres_url: str, dump: str) -> str:
    name = f"upgrade_{next(_numbers)}"
    admin = await asyncpg.connect(with_database(postgres_url, "postgres"))
    await admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    await admin.close()
    url = with_database(postgres_url, name)
    connection = await asyncpg.connect(url)
    # psql's own commands are not SQL.
    await connection.execute("\n".join(ln for ln in dump.splitlines() if not ln.startswith("\\")))
    await connection.close()
    return url


async def stored(url: str) -> int:
    """Of everything that counts, as it stands."""
    connection = await asyncpg.connect(url)
    found: int = await connection.fetchval(
        """
        SELECT sum(size)::bigint FROM (
            SELECT size FROM objects WHERE present
                AND coalesce(organization, metadata ->> 'organizationId') = 'default'
                AND key NOT LIKE 'artifacts/%'
            UNION ALL SELECT size_bytes FROM artifacts WHERE organization = 'default'
            UNION ALL SELECT size_bytes FROM images WHERE status IN ('UPLOADED', 'INGESTED')
        ) AS kept
        """
    )
    await connection.close()
    return found


async def look_for_what_is_lacking(url: str) -> None:
    """As happens once a minute."""
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT job_enqueue('classification.backfill', '', '{}')")
    await connection.close()


def check_settled(client: httpx.Client, settled: dict[str, Any]) -> None:
    def listed(path: str, field: str) -> list[Any]:
        return [item[field] for item in client.get(f"{OVER}/{path}").json()["items"]]

    assert settled["member"] in listed("members", "username")
    again = client.put(f"{OVER}/members/{settled['invited']}", json={"role": "viewer"})
    assert again.json()["signInLink"]  # the earlier invitation has ended long ago
    assert listed("invitations", "username") == [settled["invited"]]
    quota = client.get(f"{OVER}/quotas").json()["uploadsPerMinute"]
    assert (quota["limit"], quota["own"]) == (settled["uploadsPerMinute"], True)
    policy = client.get(f"{OVER}/submission-policy").json()
    assert [label.lower() for label in policy["blockedLabels"]] == settled["blockedLabels"]
    assert listed("blocklist", "id") == [settled["blocked"]]
    kept = client.get(f"{OVER}/retention").json()["days"]
    assert kept == settled.get("retentionDays")  # of versions that know of it
    used = [
        one["lastUsedAt"]
        for one in client.get(f"{OVER}/tokens").json()["items"]
        if one["role"] == "viewer"
    ]
    assert any(used) == settled.get("tokenUsed", False)
    assert settled["question"] in listed("approvals?status=all", "id")
    headers = {"authorization": f"Bearer {settled['token']}"}
    assert client.get(LIBRARY, headers=headers).status_code == 200


def test_there_is_something_to_upgrade_from() -> None:
    assert FIXTURES


@pytest.mark.process
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_upgrade(fixture: Path, postgres_url: str, tmp_path: Path) -> None:
    with tarfile.open(fixture) as archive:
        archive.extractall(tmp_path, filter="data")
    everything = json.loads((tmp_path / "expected.json").read_text())
    expected: dict[str, str] = everything["uploads"]
    url = asyncio.run(restore(postgres_url, (tmp_path / "dump.sql").read_text()))
    with running(tmp_path, SAFELIGHT_DATABASE_URL=url) as server, server.client() as client:

        def done(name: str) -> bool:
            answer = client.get(f"{LIBRARY}/{quote(name)}")
            return answer.status_code == 200 and answer.json()["classificationStatus"] == "done"

        def drawn(name: str) -> bool:
            """Whether it has what versions before did not make."""
            at = f"{LIBRARY}/{quote(name)}"
            entry, small = client.get(at).json(), client.get(f"{at}/thumbnail")
            return small.status_code == 200 and entry["checksum"] == expected[name]

        for name, checksum in expected.items():
            eventually(partial(done, name))
            content = client.get(f"{LIBRARY}/{quote(name)}/content").content
            assert hashlib.sha256(content).hexdigest() == checksum
        asyncio.run(look_for_what_is_lacking(url))
        for name in expected:
            eventually(partial(drawn, name))
        listed = {item["name"] for item in client.get(LIBRARY).json()["items"]}
        assert listed == {*expected, *filter(None, [everything.get("failed")])}
        story = client.get(f"{LIBRARY}/gone.webp/history").json()["items"]
        assert story[-1]["type"] == "upload_deleted"
        for artifact, checksum in everything["artifacts"].items():
            content = client.get(f"/artifacts/{artifact}/content").content
            assert hashlib.sha256(content).hexdigest() == checksum
        assert client.get(f"/public/{everything['published']}").status_code == 200
        if settled := everything.get("settled"):  # by versions that know of it
            check_settled(client, settled)
            failed = client.get(f"{LIBRARY}/{everything['failed']}").json()
            assert failed["classificationStatus"] == "failed"
        quotas = client.get("/api/organizations/default/quotas").json()
        assert quotas["storedBytes"]["used"] == asyncio.run(stored(url))
