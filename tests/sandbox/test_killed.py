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
from PIL import Image

from harness import Server, eventually, running
from sandbox.shared import is_locked
from submissions.pictures import encoded, opened, photo

pytestmark = pytest.mark.process
# And how often each is shot at. A question is asked twice: two shots let it wait for better times.
KITS = {
    "classification.lite0": 2,
    "generations.studio.render": 2,
    "sandbox.tasks": 3,  # it scans and it renders
    "submissions.models.safety": 2,
}
HASTE = {
    "SAFELIGHT_STALE_AFTER_SECONDS": "1",
    "SAFELIGHT_STUCK_AFTER_SECONDS": "2",
    "SAFELIGHT_RECOVERY_INTERVAL_SECONDS": "1",
    "SAFELIGHT_RECOVERY_BACKOFF_SECONDS": "1,1,1",
}
# One after another, until all have been hit; some work is so short that a shot can miss it.
ROUNDS = (None, *Image.Transpose)
BETWEEN_LOOKS = 0.002


def test_nothing_is_lost_and_nobody_blamed(tmp_path: Path, database_url: str) -> None:
    with (
        running(tmp_path, SAFELIGHT_DATABASE_URL=database_url, **HASTE) as server,
        server.client() as client,
        shooting(server) as shot,
    ):
        for turn in ROUNDS:
            work(server, client, turn)
            if set(shot) == set(KITS):
                break
        assert get(client, "/api/v1/admin/dead-letters")["items"] == []
    assert set(shot) == set(KITS), "a kill that was no kill proves nothing"


def work(server: Server, client: httpx.Client, turn: Image.Transpose | None) -> None:
    """All there is, with pictures that look like no other."""
    name = f"{turn}.jpg"
    assert server.upload(large(turn), name).status_code == 201
    wanted = {"prompt": f"sea {turn}", "width": 1024, "height": 1024}
    drawn = post(client, "/generations", {"model": "studio/horizon", "input": wanted})
    eventually(lambda: labelled(client, name), 90)
    scanned = post(client, "/api/v1/submissions", {"source": {"upload": name}})
    path = f"/api/v1/submissions/{scanned['id']}"
    eventually(lambda: get(client, path)["state"] == "PUBLISHED", 90)
    eventually(lambda: get(client, f"/generations/{drawn['id']}")["completedAt"], 90)
    assert get(client, f"/generations/{drawn['id']}")["status"] == "ready"


def large(turn: Image.Transpose | None) -> bytes:
    """One takes long enough to be hit."""
    whole = opened(photo()).resize((4400, 3000))
    return encoded(whole if turn is None else whole.transpose(turn))


def labelled(client: httpx.Client, name: str) -> bool:
    items = get(client, "/api/organizations/default/uploads")["items"]
    states = {item["name"]: item["classificationStatus"] for item in items}
    assert "failed" not in states.values()
    return states.get(name) == "done"


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
    over, hit = threading.Event(), set()

    def shoot() -> None:
        while shot != KITS and not over.wait(BETWEEN_LOOKS):
            for kit, child in at_work(server.process.pid):
                if child.pid not in hit and shot[kit] < KITS[kit]:
                    child.kill()
                    hit.add(child.pid)  # it may take a while to go
                    shot[kit] += 1

    shooter = threading.Thread(target=shoot)
    shooter.start()
    try:
        yield shot
    finally:
        over.set()
        shooter.join()


def at_work(server: int) -> Iterator[tuple[str, psutil.Process]]:
    """A look is quick: those it is for share the processors with it, and some are soon done."""
    for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        with suppress(psutil.NoSuchProcess):
            child = psutil.Process(int(pid))
            if is_locked(child.pid) and child.status() == psutil.STATUS_RUNNING:
                line = " ".join(child.cmdline())
                for kit in KITS:
                    if f'"safelight.{kit}"' in line:
                        yield kit, child
