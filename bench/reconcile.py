"""How much memory and time `safelight reconcile` takes, by how many keys a bucket has.

The bucket is a listing over HTTP (listing.py); the database and the command are the real ones. Of
every ten thousand keys the bucket lacks one, which is looked at by itself.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from bench.database import database
from bench.listing import ETAG, MISSING_OF, SIZE
from bench.measure import Limit, Shown, Table, verdict
from safelight.infra.migrate import migrate

SIZES = (10_000, 100_000, 1_000_000)
LIMIT: Limit = ("≤", 200)
_FILL = (
    "INSERT INTO organizations VALUES ('default', 0) ON CONFLICT DO NOTHING",
    f"""
    INSERT INTO uploads (organization, name, event_time, source, e_tag, idempotency_key,
                         classification_status)
    SELECT 'default', 'photo-' || lpad(n::text, 8, '0') || '.jpg', n, 'safelight', '{ETAG}',
           md5(n::text), 'done'
    FROM generate_series($1::integer, $2::integer) AS n
    """,
    f"""
    INSERT INTO objects (key, organization, name, present, size, content_type, metadata, etag,
                         event_time)
    SELECT 'default/photo-' || lpad(n::text, 8, '0') || '.jpg', 'default',
           'photo-' || lpad(n::text, 8, '0') || '.jpg', true, {SIZE}, 'image/jpeg',
           jsonb_build_object('idempotencyKey', md5(n::text)), '{ETAG}', n
    FROM generate_series($1::integer, $2::integer) AS n
    """,
)


def run() -> list[Shown]:
    most = int(os.environ.get("BENCH_ROWS", str(SIZES[-1])))
    table = Table(
        "Reconcile: comparing a bucket with index and library",
        "keys", "seconds", "keys/s", "CPU s of the command", "its peak memory", "budget", "verdict",
        says="One process, `safelight reconcile --json`, over a bucket that lacks one key of every "
        "ten thousand. Memory is the peak of its resident set, libraries included.",
    )  # fmt: skip
    already = 0
    with database() as bench:
        asyncio.run(migrate(bench.url))
        for keys in (size for size in SIZES if size <= most):
            asyncio.run(_fill(bench.url, already, keys))
            already = keys
            with _listing(keys, bench.ask("SELECT id FROM identity")) as endpoint:
                seconds, cpu, peak = _compare(bench.url, str(bench.files), endpoint, keys)
            met = ("≤ 200 MiB", verdict(peak, LIMIT)) if keys == SIZES[-1] else ("", "")
            table.add(
                f"{keys:,}", f"{seconds:.1f}", f"{keys / seconds:,.0f}", f"{cpu:.1f}",
                f"{peak:.0f} MiB", *met,
            )  # fmt: skip
    return [table]


async def _fill(url: str, already: int, keys: int) -> None:
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute("SET synchronous_commit = off")
        await connection.execute(_FILL[0])
        for statement in _FILL[1:]:
            await connection.execute(statement, already + 1, keys)
        for name in ("uploads", "objects"):
            await connection.execute(f"VACUUM (ANALYZE) {name}")
    finally:
        await connection.close()


@contextmanager
def _listing(keys: int, identity: str) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.listing", str(keys), identity]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _compare(url: str, files: str, endpoint: str, keys: int) -> tuple[float, float, float]:
    """Seconds, seconds of its processor, and MiB."""
    bucket = f"s3://bucket?endpoint={endpoint}&region=r&access_key_id=a&secret_access_key=b"
    environment = {
        **os.environ,
        "SAFELIGHT_DATABASE_URL": url,
        "SAFELIGHT_DATA_DIR": files,
        "SAFELIGHT_OBJECT_STORE_URL": bucket,
    }
    command = [sys.executable, "-m", "safelight", "reconcile", "--json"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    found = json.loads(said)
    missing = keys // MISSING_OF
    assert found["compared"] == keys, found
    assert found["differences"]["missingInBucket"]["count"] == missing, found
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    for shown in run():
        print(shown.markdown())
