"""A whole server whose children are killed in the middle of their work, whatever that is: looking at
uploads, drawing, verifying what was drawn, scanning, judging and rendering."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from harness import Server, eventually, running
from sandbox.shared import is_locked, living
from submissions.pictures import encoded, opened, photo

pytestmark = pytest.mark.process
KITS = {
    "classification.lite0": "upload",
    "generations.studio.render": "draw",
    "sandbox.tasks": "verify, scan, render",
    "submissions.models.safety": "judge",
}
SHOTS = 3  # at each
HASTE = {
    "SAFELIGHT_STALE_AFTER_SECONDS": "1",
    "SAFELIGHT_STUCK_AFTER_SECONDS": "2",
    "SAFELIGHT_RECOVERY_INTERVAL_SECONDS": "1",
    "SAFELIGHT_RECOVERY_BACKOFF_SECONDS": "1,1,1",
}
NAMES = [f"{number}.jpg" for number in range(2)]


def test_nothing_is_lost_and_nobody_blamed(tmp_path: Path, database_url: str) -> None:
    with (
        running(tmp_path, SAFELIGHT_DATABASE_URL=database_url, **HASTE) as server,
        server.client() as client,
        shooting(server) as shot,
    ):
        for number, name in enumerate(NAMES):
            assert server.upload(large(number), name).status_code == 201
        wanted = {"prompt": "sea", "width": 1024, "height": 1024}
        drawn = post(client, "/generations", {"model": "studio/horizon", "input": wanted})
        eventually(lambda: labelled(client), 90)
        scanned = post(client, "/api/v1/submissions", {"source": {"upload": NAMES[0]}})
        path = f"/api/v1/submissions/{scanned['id']}"
        eventually(lambda: get(client, path)["state"] == "PUBLISHED", 90)
        eventually(lambda: get(client, f"/generations/{drawn['id']}")["completedAt"], 90)
        assert get(client, f"/generations/{drawn['id']}")["status"] == "ready"
        assert get(client, "/api/v1/admin/dead-letters")["items"] == []
    assert set(shot) == set(KITS), "a kill that was no kill proves nothing"


def large(number: int) -> bytes:
    """One takes long enough to be hit."""
    return encoded(opened(photo()).crop((0, 0, 440 - number, 300)).resize((4400, 3000)))


def labelled(client: httpx.Client) -> bool:
    items = get(client, "/api/organizations/default/uploads")["items"]
    states = {item["classificationStatus"] for item in items}
    assert "failed" not in states
    return len(items) == len(NAMES) and states == {"done"}


def get(client: httpx.Client, path: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(path).raise_for_status().json()
    return found


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
    return made


@contextmanager
def shooting(server: Server) -> Iterator[Counter[str]]:
    """At whichever child is at work, some times for each kit."""
    shot: Counter[str] = Counter()
    over = threading.Event()

    def shoot() -> None:
        while not over.is_set():
            for kit, child in at_work(server.process.pid):
                if shot[kit] < SHOTS:
                    child.kill()
                    shot[kit] += 1

    shooter = threading.Thread(target=shoot)
    shooter.start()
    try:
        yield shot
    finally:
        over.set()
        shooter.join()


def at_work(server: int) -> Iterator[tuple[str, psutil.Process]]:
    for kit in KITS:
        for child in living(f"safelight.{kit}", server):
            with suppress(psutil.NoSuchProcess):
                if is_locked(child.pid) and child.status() == psutil.STATUS_RUNNING:
                    yield kit, child
