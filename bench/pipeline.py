"""Upload → classified, all of it: CPU per image of every process, against the bare model.

The ceiling is the same decode and inference in a loop, measured before and after in the same run.
"""

import json
import time
from contextlib import closing

from websockets.sync.client import connect

from bench.classify import ceiling
from bench.load import multipart, post_many, request
from bench.measure import Table, median, percentile
from bench.pictures import two_megapixels
from bench.server import TOKEN, Measured, serving

CLIENTS = 16
UPDATED = "classification_updated"


def run(*, count: int = 600, paced: int = 240) -> list[Table]:
    table = Table("Upload → classified, 2 MP JPEGs", "what", "value")
    before = ceiling(6)[1]
    with serving(SAFELIGHT_THUMBNAILS="off", SAFELIGHT_LOG_LEVEL="info") as server:
        table.add(
            "`safelight serve` on an empty directory → answering",
            f"{server.seconds_to_start:.1f} s",
        )
        _pipeline(server, 40, rate=None)  # loads the model, fills the pools
        saturated = _pipeline(server, count, rate=None)
        after = ceiling(6)[1]
        pacing = _pipeline(server, paced, rate=30.0)
        latencies = _idle_latency(server, 30)
    with serving(program="bench.instant", SAFELIGHT_LOG_LEVEL="info") as server:
        _pipeline(server, 40, rate=None)
        without = _pipeline(server, count, rate=None)
    bare = (before + after) / 2
    ours, postgres, seconds = saturated
    table.add("bare decode + infer loop, CPU per image", f"{bare:.1f} ms")
    table.add("whole pipeline, CPU per image", f"{ours + postgres:.1f} ms")
    table.add("… Safelight's own processes", f"{ours:.1f} ms")
    table.add("… PostgreSQL", f"{postgres:.1f} ms")
    table.add(
        "everything but the model (upload → STORED → delivered → written), ours + PostgreSQL",
        f"{without[0]:.1f} + {without[1]:.1f} ms",
    )
    table.add("**bare ÷ whole** (budget ≥ 0.75)", f"**{bare / (ours + postgres):.2f}**")
    table.add(f"throughput, {CLIENTS} clients", f"{count / seconds:.0f} images/s")
    table.add("paced at 30/s: whole pipeline, CPU per image", f"{pacing[0] + pacing[1]:.1f} ms")
    table.add("paced at 30/s: PostgreSQL", f"{pacing[1]:.1f} ms")
    table.add(
        "idle: 201 → `classification_updated` on a socket, p50 / p95",
        f"{median(latencies) * 1000:.0f} / {percentile(latencies, 0.95) * 1000:.0f} ms",
    )
    return [table]


def _pipeline(server: Measured, count: int, rate: float | None) -> tuple[float, float, float]:
    """CPU milliseconds per image, ours and PostgreSQL's, and the seconds until all are done."""
    done = _classified(server)
    before = server.cpu()
    started = time.monotonic()
    body = multipart(two_megapixels(), f"{time.monotonic_ns()}-00000.jpg")
    message = request("/api/upload", body, TOKEN)
    result = post_many(server.port, message, count=count, clients=CLIENTS, rate=rate, rename=True)
    assert result.statuses == {201: count}, result.statuses
    while _classified(server) < done + count:
        time.sleep(0.05)
    seconds = time.monotonic() - started
    after = server.cpu()
    return (
        (after[0] - before[0]) / count * 1000,
        (after[1] - before[1]) / count * 1000,
        seconds,
    )


def _classified(server: Measured) -> int:
    with server.client() as client:
        hours = client.get("/api/v1/admin/queue/metrics").json()["throughput"]["recentHours"]
    return sum(int(hour["processed"]) for hour in hours) // 3  # three jobs an image


def _idle_latency(server: Measured, count: int) -> list[float]:
    url = server.url.replace("http", "ws", 1) + "/api/organizations/default/live"
    latencies = []
    content = two_megapixels()
    with (
        closing(connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"})) as socket,
        server.client() as client,
    ):
        for number in range(count):
            client.post("/api/upload", files={"file": (f"idle-{number}.jpg", content)})
            answered = time.monotonic()
            while json.loads(socket.recv(timeout=30))["type"] != UPDATED:
                pass
            latencies.append(time.monotonic() - answered)
            time.sleep(0.1)
    return latencies


if __name__ == "__main__":
    for table in run():
        print(table.markdown())
