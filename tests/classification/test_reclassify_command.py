"""`safelight reclassify`, beside a server."""

from pathlib import Path

import httpx
import pytest

from commands import executing
from harness import TOKEN, picture, running
from safelight.testing.waiting import eventually

pytestmark = pytest.mark.process


def test_it_is_asked_for_and_followed_to_its_end(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        running(data_dir, SAFELIGHT_BOOTSTRAP_TOKEN=TOKEN) as server,
        executing(monkeypatch, capsys, "reclassify", "--data-dir", str(data_dir)) as command,
    ):
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
