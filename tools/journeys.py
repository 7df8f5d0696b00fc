"""Counts what a person passes through to follow an image: our files and functions that run.

Two journeys through the whole application, warmed up: `upload`, a JPEG from the socket to its
label, and `submission`, that upload until it is PUBLISHED. With `--live` somebody listens, too. A
function below src/safelight counts once if it is entered or resumed in between, in whichever
thread. The sandbox's children are other processes and do not count. What idles along (the
worker's look once a second, its watchdog, a new connection in the pool) is entered when its turn
comes, so each journey is made twice and what both times have in common is told; now and then a
few idle ones are in both.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import asyncpg
import httpx
import uvicorn
from websockets.sync.client import ClientConnection, connect

from safelight.accounts.first_start import ORGANIZATION, first_start
from safelight.app import create_app
from safelight.infra import logs
from safelight.infra.activity import Units
from safelight.infra.injected import Ids
from safelight.infra.postgres.server import attached
from safelight.settings import Settings, load
from safelight.wiring import open_services

ROOT = Path(__file__).resolve().parents[1]
SOURCE = f"{ROOT / 'src/safelight'}/"
PHOTOS = ROOT / "tests/photos"
TOKEN = f"slt_{'j' * 40}"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
LOOK_SECONDS = 0.02
SETTLE_SECONDS = 0.1  # after the message: the job's end is written, the worker looks again

Function = tuple[str, str]  # file and qualified name


class Profiler:
    """Installed before any thread is, as Python 3.11 gives none to a running one."""

    def __init__(self) -> None:
        self._entered: set[CodeType] = set()
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def during(self, journey: Callable[[str], None], photo: str) -> set[Function]:
        self._entered.clear()
        journey(photo)
        ours = [code for code in self._entered.copy() if code.co_filename.startswith(SOURCE)]
        return {(code.co_filename.removeprefix(SOURCE), code.co_qualname) for code in ours}

    def _hook(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._entered.add(frame.f_code)


@dataclass
class Traveller:
    """The client, in a thread of its own. It asks the server for nothing: an open socket tells it,
    or it looks into the database by itself."""

    http: httpx.Client
    database: str
    news: ClientConnection | None

    def upload(self, photo: str) -> None:
        content = (PHOTOS / photo).read_bytes()
        self.http.post("/api/upload", files={"file": (photo, content)}).raise_for_status()
        done = "SELECT FROM uploads WHERE name = $1 AND classification_status = 'done'"
        self._until(done, photo, type="classification_updated", name=photo)

    def submission(self, photo: str) -> None:
        answer = self.http.post("/api/v1/submissions", json={"source": {"upload": photo}})
        made = answer.raise_for_status().json()["id"]
        done = "SELECT FROM submissions WHERE id = $1 AND state = 'PUBLISHED'"
        self._until(done, made, id=made, to="PUBLISHED")

    def _until(self, statement: str, value: str, **wanted: str) -> None:
        if self.news is None:
            asyncio.run(self._look(statement, value))
        while self.news and not wanted.items() <= json.loads(self.news.recv(timeout=60)).items():
            pass
        time.sleep(SETTLE_SECONDS)

    async def _look(self, statement: str, value: str) -> None:
        connection = await asyncpg.connect(self.database)
        while await connection.fetchrow(statement, value) is None:
            await asyncio.sleep(LOOK_SECONDS)
        await connection.close()


def travel(
    url: str, database: str, profiler: Profiler, *, listening: bool
) -> dict[str, set[Function]]:
    live = f"{url.replace('http', 'ws', 1)}/api/organizations/{ORGANIZATION}/live"
    measured: dict[str, list[set[Function]]] = {"upload": [], "submission": []}
    with ExitStack() as stack:
        http = stack.enter_context(httpx.Client(base_url=url, headers=HEADERS, timeout=60))
        news = stack.enter_context(connect(live, additional_headers=HEADERS)) if listening else None
        traveller = Traveller(http, database, news)
        for photo in ("cat.jpg", "daisy.jpg", "coffee.jpg"):
            for name, runs in measured.items():
                runs.append(profiler.during(getattr(traveller, name), photo))
    return {name: set.intersection(*runs[1:]) for name, runs in measured.items()}  # one warms up


async def serve(
    settings: Settings, database: str, profiler: Profiler, *, listening: bool
) -> dict[str, set[Function]]:
    """As `safelight serve` does, for as long as the journeys take."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_services(settings, database, worker=True, address=lambda: url) as services:
            get = services.get
            await first_start(get(Units), settings, get(Ids))
            options: dict[str, Any] = {"lifespan": "off", "log_config": None, "access_log": False}
            server = uvicorn.Server(uvicorn.Config(create_app(services), **options))
            serving = asyncio.create_task(server.serve([listener]))
            try:
                return await asyncio.to_thread(travel, url, database, profiler, listening=listening)
            finally:
                server.should_exit = True
                await serving


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="list the files")
    parser.add_argument("--functions", action="store_true", help="list the functions")
    parser.add_argument("--inner", action="store_true", help="count comprehensions as functions")
    parser.add_argument("--live", action="store_true", help="with somebody who listens")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="journeys-") as name:
        Path(name).chmod(0o711)  # an unprivileged PostgreSQL must be able to pass
        settings = load({"data_dir": Path(name) / "data", "bootstrap_token": TOKEN})
        with (Path(name) / "log").open("w") as log, attached(settings.data_dir) as database:
            with redirect_stderr(log):
                logs.configure("json", settings.log_level)
            measured = asyncio.run(serve(settings, database, Profiler(), listening=wanted.live))
    for journey, found in measured.items():
        plain = {each for each in found if not each[1].endswith(("comp>", "<genexpr>", "<module>"))}
        functions = found if wanted.inner else plain
        files = Counter(file for file, _ in functions)
        print(f"{journey}: {len(files)} files, {len(functions)} functions")
        for file, count in sorted(files.items()) if wanted.files else ():
            print(f"{count:6} {file}")
        for function in sorted(functions) if wanted.functions else ():
            print("      ", ":".join(function))


if __name__ == "__main__":
    main()
