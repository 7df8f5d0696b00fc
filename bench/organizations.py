"""Whether the images of one organization go through as fast as those of four:
`python -m bench organizations`.

What tells an organization's feed holds a lock until its commit, so that readers miss nothing. Where
each commit takes a while, as on disks and replicas of the real world, that lock is what one
organization's images could wait for and four organizations' would not. Four worker processes and a
classifier that answers at once, so that nothing else is in the way; the milliseconds are
PostgreSQL's own (`commit_delay`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from bench.database import Bench, database
from bench.flow import CLIENTS
from bench.load import multipart, post_many, request
from bench.measure import Shown, Table, median, verdict
from bench.pictures import two_megapixels
from bench.server import TOKEN, Measured, serving, working

MANY, WORKERS, ROUNDS = 4, 4, 3
_DELAY_US = 2000
_LOOK_SECONDS, _PATIENCE_SECONDS = 0.05, 120.0
_DONE = "SELECT count(*) FROM uploads WHERE classification_status = 'done'"
_SETTINGS = {"SAFELIGHT_THUMBNAILS": "off"}


def run(*, count: int = 400) -> list[Shown]:
    table = Table(
        f"One organization beside {MANY}, images/s without the model",
        "a commit takes longer by", "one organization", f"{MANY} organizations", "one ÷ many",
        "budget", "verdict",
        says=f"`serve --no-worker` and {WORKERS} worker processes, {CLIENTS} clients in all; "
        f"the middle of {ROUNDS} rounds by turns.",
    )  # fmt: skip
    for delay in (0, _DELAY_US):
        with _standing(delay) as (bench, server, tokens):
            _flow(bench, server, tokens, 40 * MANY)
            one, many = [], []
            for _ in range(ROUNDS):
                one.append(_flow(bench, server, tokens[:1], count))
                many.append(_flow(bench, server, tokens, count))
        ratio = median(one) / median(many)
        met = ("≥ 0.8", verdict(ratio, ("≥", 0.8))) if delay else ("", "")
        rates = (f"{median(each):.1f}" for each in (one, many))
        table.add(f"{delay // 1000} ms", *rates, f"{ratio:.2f}", *met)
    return [table]


@contextmanager
def _standing(delay_us: int) -> Iterator[tuple[Bench, Measured, list[str]]]:
    with database() as bench, ExitStack() as stack:
        for name, value in (("commit_delay", delay_us), ("commit_siblings", 0)):
            bench.ask(f"ALTER SYSTEM SET {name} = {value}")
        bench.ask("SELECT pg_reload_conf()")
        settings = {"SAFELIGHT_DATABASE_URL": bench.url, **_SETTINGS}
        server = stack.enter_context(
            serving("--no-worker", program="bench.instant", files=bench.files, **settings)
        )
        for _ in range(WORKERS):
            stack.enter_context(working(bench.files, program="bench.instant", **settings))
        tokens = [TOKEN, *(_organization(bench, f"org-{n}") for n in range(1, MANY))]
        yield bench, server, tokens


def _organization(bench: Bench, name: str) -> str:
    """Made by the command line; answers its token."""
    _command(bench, "organizations", "create", name)
    return _command(bench, "tokens", "create", "--organization", name, "--role", "member").split()[
        -1
    ]


def _command(bench: Bench, *words: str) -> str:
    environment = {**os.environ, "SAFELIGHT_DATABASE_URL": bench.url}
    command = [sys.executable, "-m", "safelight", *words, "--data-dir", str(bench.files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def _flow(bench: Bench, server: Measured, tokens: list[str], count: int) -> float:
    """Images a second, from the first upload to the last label; each organization's clients share
    its images."""
    before = bench.ask(_DONE)
    body = multipart(two_megapixels(), f"{time.monotonic_ns()}-00000.jpg")
    share, clients = count // len(tokens), CLIENTS // len(tokens)
    started = time.monotonic()

    def post(token: str) -> None:
        message = request("/api/upload", body, token)
        answers = post_many(server.port, message, count=share, clients=clients, rename=True)
        assert answers.statuses == {201: share}, answers.statuses

    with ThreadPoolExecutor(len(tokens)) as pool:
        list(pool.map(post, tokens))
    while bench.ask(_DONE) - before < share * len(tokens):
        if time.monotonic() - started > _PATIENCE_SECONDS:
            raise TimeoutError("not all images have a label, and no more come")
        time.sleep(_LOOK_SECONDS)
    return share * len(tokens) / (time.monotonic() - started)


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
