"""One life of the embedded PostgreSQL in a process of its own, for tests that end it badly.

Run with a JSON object: data_dir, and optionally uid and gid to become, failpoints to arm, and
attach to use `attached`. Prints one JSON line when it runs or is refused, and one for each SIGINT;
a line on standard input ends it.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from safelight.errors import SafelightError
from safelight.infra.failpoints import arm
from safelight.infra.postgres.server import EmbeddedPostgres, attached


def say(**words: Any) -> None:
    os.write(1, f"{json.dumps(words)}\n".encode())


def become(uid: int | None, gid: int | None) -> None:
    if uid is not None and gid is not None:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def serve(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    say(url=server.start(), pid=server.pid)
    sys.stdin.readline()
    server.stop()


def attach(data_dir: Path) -> None:
    with attached(data_dir) as url:
        say(url=url)
        sys.stdin.readline()


def main() -> None:
    options = json.loads(sys.argv[1])
    become(options.get("uid"), options.get("gid"))
    for name, action in options.get("failpoints", {}).items():
        arm(name, action)
    signal.signal(signal.SIGINT, lambda *_: say(interrupted=True))
    try:
        (attach if options.get("attach") else serve)(Path(options["data_dir"]))
    except SafelightError as error:
        say(error=type(error).__name__, message=error.message)


if __name__ == "__main__":
    main()
