"""What others notice while somebody misbehaves: answers to one organization while another attacks,
beside the same without any attack, and what the server keeps of it in memory.

Whole attacks, on a server that may open 1,024 files: `python -m bench hostile`.
"""

import json
import multiprocessing
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing.synchronize import Event
from urllib.parse import urlsplit

import httpx
import psutil

from bench.measure import Table, median, percentile
from bench.pictures import two_megapixels
from bench.server import Measured, serving
from headers.heif_files import av1, tiled

SECONDS = 6.0
MIB = 1024 * 1024
Attack = Callable[[Measured, Event], None]


def run() -> list[Table]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # ours, to attack with
    table = Table(
        "Hostile clients: another organization's GET meanwhile, at 1,024 files",
        "attack", "p50", "p99", "memory kept", "budget",
    )  # fmt: skip
    with serving(program="bench.few_files", SAFELIGHT_QUOTA_UPLOADS_PER_MINUTE="0") as server:
        bystander = _bystander(server)
        process = psutil.Process(server.pid)
        _nobody_waits(server, bystander, _nothing)
        for name, attack in ATTACKS.items():
            before = process.memory_info().rss
            waits = _nobody_waits(server, bystander, attack)
            time.sleep(2)
            kept = max(0, process.memory_info().rss - before) / MIB
            told = (f"{median(waits) * 1000:.1f} ms", f"{percentile(waits, 0.99) * 1000:.1f} ms")
            table.add(name, *told, f"{kept:.0f} MiB", "p99 ≤ 100 ms, ≤ 50 MiB")
    return [table]


def _bystander(server: Measured) -> str:
    """A token of another organization."""
    command = [sys.executable, "-m", "safelight"]
    where = ["--data-dir", str(server.data_dir)]
    subprocess.run([*command, "organizations", "create", "quiet", *where], check=True)
    order = ["tokens", "create", "--organization", "quiet", "--role", "viewer", "--json"]
    made = subprocess.run([*command, *order, *where], check=True, capture_output=True, text=True)
    token: str = json.loads(made.stdout)["token"]
    return token


def _nobody_waits(server: Measured, token: str, attack: Attack) -> list[float]:
    apart = multiprocessing.get_context("fork")  # or attackers and bystander would share a lock
    over, waits = apart.Event(), []
    attacking = apart.Process(target=attack, args=(server, over))
    attacking.start()
    time.sleep(0.5)
    headers, path = {"authorization": f"Bearer {token}"}, "/api/organizations/quiet/uploads"
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")  # one address has its own limit
    try:
        with httpx.Client(
            base_url=server.url, headers=headers, timeout=60, transport=elsewhere
        ) as client:
            ends = time.monotonic() + SECONDS
            while time.monotonic() < ends:
                began = time.perf_counter()
                assert client.get(path).status_code == 200
                waits.append(time.perf_counter() - began)
                time.sleep(0.01)
    finally:
        over.set()
        attacking.join()
    return waits


def _nothing(_: Measured, over: Event) -> None:
    over.wait()


def _endless_header(server: Measured, over: Event) -> None:
    while not over.is_set():
        with _dial(server) as line, suppress(OSError):
            line.sendall(b"GET / HTTP/1.1\r\nx: ")
            for _ in range(300):
                line.sendall(b"a" * MIB)


def _idle_connections(server: Measured, over: Event) -> None:
    lines = []
    for number in range(1100):
        with suppress(OSError):
            lines.append(_dial(server))
            if number % 2:
                lines[-1].sendall(b"GET / HTTP/1.1\r\nhost: here\r\n")
    over.wait()
    for line in lines:
        line.close()


def _many(work: Callable[[httpx.Client, int], object], at_once: int) -> Attack:
    def attack(server: Measured, over: Event) -> None:
        os.nice(10)  # a stranger's processor is not ours
        limits = httpx.Limits(max_connections=at_once)
        with server.client(limits=limits) as client, ThreadPoolExecutor(at_once) as pool:

            def again(number: int) -> None:
                while not over.is_set():
                    with suppress(httpx.HTTPError):
                        work(client, number)

            list(pool.map(again, range(at_once)))

    return attack


@cache
def _grids() -> tuple[bytes, bytes]:
    """Ninety tiles of one megapixel, all of them the same few bytes: in one file as it says, and in
    another that says it were 64 × 64. The first takes long to decode; the second is refused."""
    tile, padding = av1(1000, 1000), bytes(2500)
    honest = tiled(tile, 9, 10, (9000, 10_000), tile_claims=(1000, 1000))
    lying = tiled(tile, 9, 10, (64, 64), tile_claims=(64, 64))
    return honest + padding, lying + padding


def _avif_grids(client: httpx.Client, number: int) -> None:
    for name, data in zip((f"grid-{number}.avif", f"liar-{number}.avif"), _grids(), strict=True):
        client.post(f"/api/upload?name={name}", files={"file": (name, data)})
    time.sleep(0.2)


def _tiny_webp(client: httpx.Client, number: int) -> None:
    """A hundred megapixels of one colour; padded, since without that it is refused at the door."""
    head = b"\x2f" + struct.pack("<I", 9999 | 9999 << 14) + b"\0\x88\x88\x08\0"
    chunk = b"VP8L" + struct.pack("<I", len(head)) + head + bytes(2500)
    data = b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk
    client.post(f"/api/upload?name=tiny-{number}.webp", files={"file": ("a.webp", data)})
    time.sleep(0.2)


def _long_tail(client: httpx.Client, number: int) -> None:
    name = f"tail-{number}.jpg"
    data = two_megapixels() + b"<" * (20 * MIB)
    client.post(f"/api/upload?name={name}", files={"file": (name, data)})
    client.post("/api/v1/submissions", json={"source": {"upload": name}})
    time.sleep(0.5)


def _same_name(client: httpx.Client, _: int) -> None:
    small = {"file": ("same.jpg", two_megapixels()[:200_000])}
    client.post("/api/upload?onConflict=rename", files=small)


def _guess(client: httpx.Client, number: int) -> None:
    client.post("/login", json={"username": f"user{number}", "password": "guess"})
    time.sleep(1)


ATTACKS: dict[str, Attack] = {
    "none": _nothing,
    "endless header, 300 MiB again and again": _endless_header,
    "1,100 idle or half-header connections": _idle_connections,
    "WebP of 100 megapixels, 4 at once": _many(_tiny_webp, 4),
    "AVIF grids of 90 megapixels, honest and lying, 4 at once": _many(_avif_grids, 4),
    "submissions with 20 MiB behind the image, 2 at once": _many(_long_tail, 2),
    "uploads to one name, 32 at once": _many(_same_name, 32),
    "sign-ins, 100 a second": _many(_guess, 100),
}


def _dial(server: Measured) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), 30)


if __name__ == "__main__":
    for table in run():
        print(table.markdown())
