"""The machines on the operations page: what is said of one that is missing, and giving it up there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inprocess import Application, application
from safelight.ingest.nodes.lifecycle import Node
from safelight.web.machines import MachineRow, alarm

QUEUE = "/admin/queue"
NOW = 1_800_000_000_000


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as made:
        yield made


def row(**facts: Any) -> MachineRow:
    usual: dict[str, Any] = {
        "id": "node_x", "host": "web-2", "directory": "/data/ingest", "version": "1.2",
        "answered": NOW, "worked": None, "first_seen": NOW, "silent": 250.0, "served": False,
        "uploads": 0, "others": 0, "oldest": None,
    }  # fmt: skip
    return MachineRow(Node(**{**usual, **facts}), NOW)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row()], None),
        ([row(uploads=9, silent=1.0)], None),
        ([row(uploads=1)], "web-2 is missing. 1 upload has its only copy there."),
        ([row(uploads=50), row()], "web-2 is missing. 50 uploads have their only copy there."),
        ([row(others=2)], "web-2 is missing, and jobs wait for files there."),
        (
            [row(uploads=2), row(uploads=3, host="")],
            "2 machines are missing. 5 uploads have their only copy on them.",
        ),
    ],
)
def test_what_the_page_says_first(rows: list[MachineRow], said: str | None) -> None:
    assert alarm(rows) == said


def test_what_is_said_of_a_machine() -> None:
    missing = row(uploads=50, others=1, oldest=NOW - 7_200_000)
    assert missing.facts == ["answers requests", "version 1.2", "last heard 4 min 10 s ago"]
    assert missing.waits == "50 uploads and 1 other job waiting, the oldest for 2 h"
    assert missing.question.startswith("50 uploads will fail, and whoever sent them is told.")
    assert missing.give_up == "/admin/queue/nodes/node_x/give-up?uploads=50"
    alive = row(silent=3.0, worked=NOW)
    assert alive.facts[0::2] == ["answers requests and runs jobs", "heard just now"]
    assert alive.waits == ""
    unknown = row(host="", directory="", version="", answered=None, silent=None, others=2)
    assert (unknown.name, unknown.waits) == ("Unknown machine", "2 other jobs waiting")
    assert unknown.facts == ["it runs an earlier version, which gives no signs of life"]
    assert unknown.adopt == "safelight nodes adopt DIRECTORY --node node_x"
    assert unknown.question == "Nothing is lost by it."


async def lost(app: Application) -> None:
    """A machine with one upload on its disk that was never seen again."""
    await app.db.execute(
        "INSERT INTO nodes (id, host, directory, version, worked) "
        "VALUES ('node_gone', 'web-2', '/data/ingest', '1', now() - interval '5 minutes')"
    )
    await app.db.execute(
        """
        INSERT INTO images (id, organization, name, idempotency_key, status, temp_path, checksum,
                            mime_type, width, height, size_bytes, created_at, updated_at)
        VALUES ('img_1', 'default', 'a.jpg', gen_random_uuid(), 'INGESTED', 'x', 'x', 'x', 1, 1, 1,
                1, 1)
        """
    )
    await app.db.execute(
        "SELECT job_enqueue('ingest.offload', 'default', '{\"imageId\": \"img_1\"}', 'img_1', "
        "'node_gone')"
    )


async def test_listed_and_given_up_by_the_api(app: Application) -> None:
    await lost(app)
    async with app.client() as client:
        [first, second] = (await client.get("/api/v1/admin/nodes")).json()["items"]
        assert (first["id"], first["standing"], first["uploads"]) == ("node_gone", "missing", 1)
        assert (second["standing"], second["roles"]) == ("alive", ["serve"])
        assert second["directory"].endswith("/ingest")
        address = "/api/v1/admin/nodes/node_gone/give-up"
        for wrong, status in (({"uploads": 2}, 409), ({}, 422), ({"uploads": -1}, 422)):
            assert (await client.post(address, json=wrong)).status_code == status
        alive = f"/api/v1/admin/nodes/{second['id']}/give-up"
        answer = await client.post(alive, json={"uploads": 0})
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        answer = await client.post(address, json={"uploads": 1})
        assert (answer.status_code, answer.json()) == (200, {"id": "node_gone", "uploads": 1})
        assert (await client.post(address, json={"uploads": 0})).status_code == 404
        image = (await client.get("/api/images/img_1")).json()
        assert (image["status"], image["failure"]["code"]) == ("FAILED", "MACHINE_LOST")


async def test_given_up_on_the_page(app: Application) -> None:
    await lost(app)
    async with app.client() as client:
        page = (await client.get(QUEUE)).text
        assert "web-2 is missing. 1 upload has its only copy there." in page
        assert 'data-standing="alive"' in page
        assert "safelight nodes adopt DIRECTORY" in page
        form = f"{QUEUE}/nodes/node_gone/give-up"
        refused = await client.post(f"{form}?uploads=7")
        assert (refused.status_code, "say 1." in refused.text) == (409, True)
        assert (await client.post(f"{form}?uploads=1")).status_code == 303
        assert "missing" not in (await client.get(QUEUE)).text
