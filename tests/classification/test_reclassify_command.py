"""`safelight reclassify`, beside a server."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from harness import TOKEN, picture, running
from safelight.testing.waiting import eventually

pytestmark = pytest.mark.process


def test_it_is_asked_for_and_followed_to_its_end(data_dir: Path) -> None:
    def command(*options: str) -> tuple[int, str, str]:
        words = [sys.executable, "-m", "safelight", "reclassify", *options]
        done = subprocess.run([*words, "--data-dir", str(data_dir)], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    with running(data_dir, SAFELIGHT_BOOTSTRAP_TOKEN=TOKEN) as server:
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=server.url, headers=headers) as client:
            client.post("/api/upload", files={"file": ("a.png", picture("PNG"))})
            library = "/api/organizations/default/uploads"
            eventually(lambda: client.get(f"{library}?status=done").json()["items"])
        assert command("--dry-run") == (0, "1 images would be classified anew.\n", "")
        code, said, _ = command()
        assert (code, said.splitlines()[-1]) == (0, "Done: 1 done, 0 failed, 0 skipped, of 1.")
        new_id = said.partition(":")[0]
        assert command("--follow", new_id)[1].splitlines()[-1] == said.splitlines()[-1]
        assert command("--cancel", new_id)[1] == said.splitlines()[-1] + "\n"
        assert command("--cancel", "rec_none")[0] == 4
        assert command("--organization", "nobody")[0] == 4
