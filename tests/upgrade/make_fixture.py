"""Writes fixtures/{version}.tar.gz: a small database and its files as this version leaves them.

Run it once per release, before the version number changes: `python tests/upgrade/make_fixture.py`;
with a directory behind it, it writes there. Later versions must be able to start on every one of
them, so what a version adds is added to what is made here.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
from PIL import Image

from harness import Server, eventually, picture, running
from safelight import __version__
from safelight.infra.postgres.binaries import find_binaries
from safelight.infra.postgres.server import attached

FIXTURES = Path(__file__).parent / "fixtures"
OVER = "/api/organizations/default"
LIBRARY = f"{OVER}/uploads"
ADMIN = "/api/v1/admin/organizations/default"
OWN_QUOTA = 5000
OWN_DAYS = 3000


def fill(server: Server) -> dict[str, str]:
    """Three images classified, one of them deleted again."""
    kept = {}
    for name, kind in (("sunset.jpg", "JPEG"), ("Café 🐈.png", "PNG"), ("gone.webp", "WEBP")):
        content = picture(kind, (160, 120), "orange")
        assert server.upload(content, name).status_code == 201
        kept[name] = hashlib.sha256(content).hexdigest()
    with server.client() as client:
        for name in kept:
            eventually(partial(is_done, client, name))
        assert client.delete(f"{LIBRARY}/gone.webp").status_code == 202
        eventually(lambda: client.get(f"{LIBRARY}/gone.webp").status_code == 404)
    del kept["gone.webp"]
    return kept


def generate(server: Server) -> dict[str, str]:
    """One drawing; its id and checksum."""
    order = {"model": "studio/horizon", "input": {"prompt": "sea", "width": 256, "height": 256}}
    with server.client() as client:
        made = client.post("/generations", json=order).json()["id"]
        eventually(lambda: client.get(f"/generations/{made}").json()["status"] == "ready")
        [artifact] = client.get(f"/generations/{made}/artifacts").json()["items"]
        assert client.get(f"/artifacts/{artifact['id']}/thumbnail").is_success  # is kept
    return {artifact["id"]: artifact["checksum"]}


def anew(server: Server) -> None:
    """Every image gets its label once more."""
    with server.client() as client:
        asked = client.post(f"{OVER}/reclassify", json={}).json()["id"]
        over = f"{OVER}/reclassify/{asked}"
        eventually(lambda: client.get(over).json()["remaining"] == 0)


def publish(server: Server, name: str) -> str:
    with server.client() as client:
        body = {"source": {"upload": name}}
        submission: str = client.post("/api/v1/submissions", json=body).json()["id"]
        eventually(lambda: client.get(f"/public/{submission}").status_code == 200)
    return submission


def fail(server: Server) -> str:
    """An image whose header is fine and whose picture is not."""
    assert server.upload(picture("PNG", (160, 120))[:60], "broken.png").status_code == 201
    with server.client() as client:
        eventually(partial(says, client, "broken.png", "failed"))
    return "broken.png"


def settle(server: Server) -> dict[str, Any]:
    """What people have decided: who is in, who is asked, what is not published, how much there may
    be; and a question that nobody has answered."""
    with server.client() as client:
        links = {
            name: client.put(f"{OVER}/members/{name}", json={"role": "approver"}).json()[
                "signInLink"
            ]
            for name in ("bob", "ada")
        }
        [code] = parse_qs(urlsplit(links["bob"]).query)["code"]
        assert client.post("/login", json={"code": code}).is_success
        quota = client.put(f"{ADMIN}/quotas", json={"uploadsPerMinute": OWN_QUOTA})
        policy = client.put(f"{OVER}/submission-policy", json={"blockedLabels": ["daisy"]})
        assert quota.is_success, quota.text
        assert policy.is_success, policy.text
        question = client.post(f"{OVER}/approvals", json={"title": "May we?"}).json()["id"]
        blocked = client.post(f"{OVER}/blocklist/pictures", files={"file": ("a.png", gradient())})
        token = client.post(f"{OVER}/tokens", json={"role": "viewer"}).json()["token"]
        assert client.put(f"{OVER}/retention", json={"days": OWN_DAYS}).is_success
        used = {"authorization": f"Bearer {token}"}
        assert client.get(LIBRARY, headers=used).is_success
        eventually(lambda: _was_used(client))
    return {
        "member": "bob", "invited": "ada", "uploadsPerMinute": OWN_QUOTA, "question": question,
        "blocked": blocked.json()["id"], "blockedLabels": ["daisy"], "token": token,
        "retentionDays": OWN_DAYS, "tokenUsed": True,
    }  # fmt: skip


def _was_used(client: httpx.Client) -> bool:
    tokens = client.get(f"{OVER}/tokens").json()["items"]
    return any(one["lastUsedAt"] for one in tokens if one["role"] == "viewer")


def gradient() -> bytes:
    """Like no picture of one colour, or it would take back what is published."""
    buffer = io.BytesIO()
    Image.linear_gradient("L").save(buffer, "PNG")
    return buffer.getvalue()


def says(client: httpx.Client, name: str, status: str) -> bool:
    answer = client.get(f"{LIBRARY}/{quote(name)}")
    return answer.status_code == 200 and answer.json()["classificationStatus"] == status


def is_done(client: httpx.Client, name: str) -> bool:
    return says(client, name, "done")


def main(folder: Path = FIXTURES) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        Path(scratch).chmod(0o711)
        data_dir = Path(scratch) / "data"
        with running(data_dir) as server:
            expected = fill(server)
            artifacts, published = generate(server), publish(server, "sunset.jpg")
            failed, settled = fail(server), settle(server)
            anew(server)
        # One more that never left the ingest directory: killed before any worker saw it.
        with running(data_dir, "--no-worker") as server:
            content = picture("GIF", (40, 30))
            assert server.upload(content, "waiting.gif").status_code == 201
            expected["waiting.gif"] = hashlib.sha256(content).hexdigest()
            server.kill()
        everything = {
            "uploads": expected, "artifacts": artifacts, "published": published, "failed": failed,
            "settled": settled,
        }  # fmt: skip
        (data_dir / "expected.json").write_text(json.dumps(everything, ensure_ascii=False))
        with attached(data_dir) as url:
            dump = [str(find_binaries().folder / "pg_dump"), "--inserts", "--no-owner", url]
            (data_dir / "dump.sql").write_bytes(subprocess.run(dump, check=True, stdout=-1).stdout)
        with tarfile.open(folder / f"{__version__}.tar.gz", "w:gz") as archive:
            for name in ("dump.sql", "expected.json", "ingest", "blobs"):
                archive.add(data_dir / name, name)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
