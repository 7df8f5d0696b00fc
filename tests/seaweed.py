"""SeaweedFS: an S3 server that is a distributed system in earnest. One process of it is enough here.

It is taken down hard: what it keeps is worth nothing, and asked politely it takes 15 seconds.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness import free_port

ACCESS_KEY, SECRET_KEY = "key", "secret"
# Whoever wants a server-side encryption of SeaweedFS' own gets this key; it protects nothing.
_KEK = "00" * 32
_SERVICES = ("master", "volume", "filer", "s3")
_SECONDS = 60.0
_TRIES = 3


@dataclass
class Seaweed:
    """With its data and its addresses from one life to the next: `kill` it and `start` it again."""

    directory: Path
    ports: dict[str, int] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.directory.mkdir(exist_ok=True)
        anybody = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        everything = {"name": "tests", "credentials": [anybody], "actions": ["Admin"]}
        self._config = self.directory / "s3.json"
        self._config.write_text(json.dumps({"identities": [everything]}))
        # Tests make many buckets; each would begin with seven volumes.
        (self.directory / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
        self._choose_ports()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    def start(self) -> None:
        """Ready for requests when it returns."""
        for last in (*[False] * (_TRIES - 1), True):
            self.launch()
            if self._answers():
                return
            self.kill()
            if last:
                raise AssertionError(f"SeaweedFS does not start:\n{self._log()}")
            self._choose_ports()  # somebody else was quicker at one of them

    def launch(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), cwd=self.directory, stdout=log, stderr=log,
                env={**os.environ, "TMPDIR": str(self.directory), "WEED_S3_SSE_KEK": _KEK},
            )  # fmt: skip

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _choose_ports(self) -> None:
        names = [f"{service}{kind}" for service in _SERVICES for kind in ("", ".grpc")]
        self.ports = {name: free_port() for name in names}

    def _command(self) -> list[str]:
        weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or "weed"
        ports = [
            f"-{service}.port{kind}={self.ports[f'{service}{kind}']}"
            for service in _SERVICES
            for kind in ("", ".grpc")
        ]
        return [
            weed, "-logtostderr=true", "server", f"-dir={self.directory}", "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1", "-filer", "-s3", *ports, f"-s3.config={self._config}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false",
            f"-filer.localSocket={self.directory}/filer.sock",
            f"-s3.localSocket={self.directory}/s3.sock", "-master.telemetry=false",
            "-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64", "-volume.max=2000",
        ]  # fmt: skip

    def _answers(self) -> bool:
        until = time.monotonic() + _SECONDS
        while self.process and self.process.poll() is None and time.monotonic() < until:
            try:
                urllib.request.urlopen(self.address, timeout=5).close()
            except urllib.error.HTTPError:
                return True  # it wants to know who is asking
            except OSError:
                time.sleep(0.05)
        return False

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]


@contextmanager
def seaweed() -> Iterator[Seaweed]:
    """In memory where there is some, and gone afterwards."""
    with ExitStack() as stack:
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="weed-", dir=memory))
        server = Seaweed(Path(name))
        stack.callback(server.kill)
        server.start()
        yield server
