"""Hostile clients on real sockets against a whole server that may open few files."""

import json
import re
import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import repeat
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from websockets.sync.client import connect

from conftest import reachable_directory
from harness import TOKEN, Server, await_ready, launch, picture
from safelight.http.door import files_allowed, open_more_files
from safelight.http.doorkeeper import Doorkeeper, DoorLimits
from safelight.http.frame import SECURITY_HEADERS
from safelight.infra.metrics import Metrics
from safelight.settings import load
from safelight.testing.waiting import eventually

pytestmark = pytest.mark.process
MIB = 1024 * 1024
FILES = 1024
# More than a busy machine makes a client wait that is neither silent nor slow.
PATIENCE_SECONDS = 4
PATIENCE = {
    "SAFELIGHT_HEADER_SECONDS": str(PATIENCE_SECONDS),
    "SAFELIGHT_BODY_IDLE_SECONDS": str(PATIENCE_SECONDS),
}
UPLOAD = (
    b"POST /api/upload HTTP/1.1\r\nhost: here\r\nauthorization: Bearer %s\r\n"
    b"content-type: multipart/form-data; boundary=b\r\n" % TOKEN.encode()
)
LOGIN = b"POST /login HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
KEY = b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
SOCKET = (
    b"GET /x HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\n" + KEY
)
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="slow.png"\r\n\r\n'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with reachable_directory() as directory:
        launched = launch(directory / "data", "--no-worker", environment=PATIENCE, files=FILES)
        server = await_ready(launched)
        yield server
        server.stop()


def dial(server: Server, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    return socket.create_connection((parts.hostname, parts.port), 30, (source, 0))


def hear(line: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Everything until the other side hangs up, as one answer; status 0 if there was none."""
    data = b""
    with suppress(ConnectionError):
        while piece := line.recv(65536):
            data += piece
    if not data:
        return 0, {}, b""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    headers = dict(field.lower().split(": ", 1) for field in fields)
    return int(first.split()[1]), headers, body


def send(line: socket.socket, *pieces: bytes) -> None:
    with suppress(ConnectionError):
        for piece in pieces:
            line.sendall(piece)


def told(server: Server, *pieces: bytes) -> tuple[int, str]:
    """The status and the code a client gets for these bytes; in our shape, whatever it is."""
    with closing(dial(server)) as line:
        send(line, *pieces)
        status, headers, body = hear(line)
    assert set(json.loads(body)) == {"error", "code"}
    assert headers["connection"] == "close"
    assert {name.decode() for name, _ in SECURITY_HEADERS} <= headers.keys()
    return status, json.loads(body)["code"]


def latencies(server: Server, count: int = 150) -> list[float]:
    waited = []
    with server.client(None) as client:
        for _ in range(count):
            start = time.perf_counter()
            assert client.get("/healthz").status_code == 200
            waited.append(time.perf_counter() - start)
    return waited


def p99(waited: list[float]) -> float:
    return statistics.quantiles(waited, n=100)[-1]


def test_a_header_without_end(server: Server) -> None:
    """300 MiB are refused at the first 64 KiB, as often as they are sent, and nobody notices."""
    process = psutil.Process(server.process.pid)
    control, before = p99(latencies(server)), process.memory_info().rss
    endless = (b"GET /healthz HTTP/1.1\r\nx: ", *repeat(b"a" * MIB, 300))
    over, refused = threading.Event(), []

    def attack() -> None:
        while not over.is_set():
            refused.append(told(server, *endless))

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        eventually(lambda: refused)
        # A machine that is busy with other things makes one round slow; an attack that is felt, all.
        eventually(lambda: p99(latencies(server)) < 50 * control + 0.1)
    finally:
        over.set()
        attacker.join()
    assert set(refused) == {(431, "HEADER_TOO_LARGE")}
    assert process.memory_info().rss < before + 50 * MIB


@pytest.mark.parametrize(
    ("pieces", "refusal"),
    [
        ((b"GET / HTTP/1.1\r\n", *repeat(b"x: y\r\n", 10_000), b"\r\n"), (431, "HEADER_TOO_LARGE")),
        ((b"GET / HTTP/1.1\r\nx: %b\r\n\r\n" % (b"y" * 70_000),), (431, "HEADER_TOO_LARGE")),
        ((b"GET /%b HTTP/1.1\r\n\r\n" % (b"a" * 8 * MIB),), (414, "URI_TOO_LONG")),
        ((b"GET /?%b HTTP/1.1\r\n\r\n" % (b"a" * 70_000),), (414, "URI_TOO_LONG")),
        (tuple(repeat(b"\r\n" * 1024, 100)), (431, "HEADER_TOO_LARGE")),
        ((b"\x16\x03\x01 hello",), (400, "MALFORMED_REQUEST")),
        ((b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",), (400, "MALFORMED_REQUEST")),
        (
            (UPLOAD, b"transfer-encoding: chunked\r\n\r\n1\r\n-\r\n0\r\nx: ", *repeat(b"y" * MIB, 50)),
            (431, "HEADER_TOO_LARGE"),
        ),
        (
            (UPLOAD, b"transfer-encoding: chunked\r\n\r\n1;x=", *repeat(b"y" * MIB, 50)),
            (431, "HEADER_TOO_LARGE"),
        ),
        ((LOGIN, b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 20_000), (400, "MALFORMED_REQUEST")),
        ((SOCKET, b"content-length: 5\r\n\r\n"), (400, "MALFORMED_REQUEST")),
        ((SOCKET, b"transfer-encoding: chunked\r\n\r\n"), (400, "MALFORMED_REQUEST")),
        ((SOCKET, b"cookie: %b\r\n\r\n" % (b"y" * 10_000)), (431, "HEADER_TOO_LARGE")),
        ((SOCKET, KEY, b"\r\n"), (400, "MALFORMED_REQUEST")),
        ((SOCKET.replace(KEY, b""), b"\r\n"), (400, "MALFORMED_REQUEST")),
        ((SOCKET.replace(b"GET", b"POST"), b"\r\n"), (400, "MALFORMED_REQUEST")),
        ((SOCKET, b"\r\n"), (404, "NOT_FOUND")),
    ],
    ids=[
        *("fields", "value", "path", "query", "lines", "tls", "lengths", "trailer", "extension"),
        *("crumbs", "socket body", "socket chunks", "socket cookie", "socket keys", "socket keyless"),
        *("socket method", "socket nowhere"),
    ],
)  # fmt: skip
def test_too_much_before_there_is_a_request(
    server: Server, pieces: tuple[bytes, ...], refusal: tuple[int, str]
) -> None:
    assert told(server, *pieces) == refusal


def test_a_socket_is_not_asked_for_ahead_of_an_answer(server: Server) -> None:
    """It could not wait for its turn, as requests do; and two would speak on one connection."""
    with closing(dial(server)) as line:
        send(line, b"GET /readyz HTTP/1.1\r\nhost: here\r\n\r\n" + SOCKET + b"\r\n")
        assert hear(line)[0] == 0


def test_requests_sent_ahead_of_their_answers_are_few(server: Server) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(20):
            line = stack.enter_context(closing(dial(server)))
            send(line, b"GET /readyz HTTP/1.1\r\n\r\n" * 20_000)
            hear(line)
    assert process.memory_info().rss < before + 50 * MIB


def test_small_chunks_are_taken(server: Server) -> None:
    chunks = b"10\r\n                \r\n" * 8_000
    status, code = told(
        server,
        LOGIN,
        b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        chunks,
        b"0\r\n\r\n",
    )
    assert (status, code) == (400, "INVALID_JSON")


@pytest.mark.parametrize("size", [1, 16])
def test_a_flood_of_small_chunks(server: Server, size: int) -> None:
    """Four connections send what they can; others wait for their turn, and no longer."""
    chunks = (b"%x\r\n%b\r\n" % (size, b"x" * size)) * 10_000
    control, over = p99(latencies(server)), threading.Event()
    sent = threading.Semaphore(0)

    def attack() -> None:
        while not over.is_set():
            with closing(dial(server)) as line, suppress(OSError):
                line.sendall(LOGIN + b"transfer-encoding: chunked\r\n\r\n")
                while not over.is_set():
                    line.sendall(chunks)
                    sent.release()

    attackers = [threading.Thread(target=attack) for _ in range(4)]
    for attacker in attackers:
        attacker.start()
    try:
        assert sent.acquire(timeout=20)
        eventually(lambda: statistics.median(latencies(server, 20)) < 20 * control + 0.1)
    finally:
        over.set()
        for attacker in attackers:
            attacker.join()


def test_headers_go_with_their_answers(server: Server) -> None:
    """Sent ahead they wait outside; and what is done is not kept for the collector to find."""
    process = psutil.Process(server.process.pid)
    fields = b"".join(b"x%d: %b\r\n" % (n, b"y" * 630) for n in range(96))
    large, last = asked(server, fields), asked(server, b"connection: close\r\n" + fields)
    before = process.memory_info().rss
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(dial(server))) for _ in range(80)]
        for line in lines:
            send(line, large * 14 + last)
        assert {hear(line)[0] for line in lines} == {200}
    assert process.memory_info().rss < before + 30 * MIB


def asked(server: Server, fields: bytes = b"") -> bytes:
    """A request for our largest file that is for everybody."""
    with server.client(None) as client:
        [version] = set(re.findall(r"/static/\w+/", client.get("/login").text))
    path = f"{version}app.js"
    return b"GET %b HTTP/1.1\r\nhost: here\r\n%b\r\n" % (path.encode(), fields)


def test_a_header_that_does_not_come(server: Server) -> None:
    first = b"GET /healthz HTTP/1.1\r\nhost: here\r\n"
    with (
        closing(dial(server)) as silent,
        closing(dial(server)) as slow,
        closing(dial(server)) as again,
    ):
        again.sendall(first + b"\r\n")
        assert b"200" in again.recv(64)
        slow.sendall(first)
        again.sendall(first)
        status, _, body = hear(slow)
        assert (status, json.loads(body)["code"]) == (408, "REQUEST_TIMEOUT")
        assert hear(silent)[0] == 0  # it said nothing and is told nothing
        assert b"HTTP/1.1 408" in b"".join(iter(lambda: again.recv(65536), b""))


def test_a_body_that_stops(server: Server) -> None:
    declared = b"content-length: 9000\r\n\r\n"
    assert told(server, UPLOAD, declared, PART, b"x") == (408, "REQUEST_TIMEOUT")
    eventually(lambda: not server.files())


def test_a_client_that_goes_in_the_middle_of_a_body_is_no_error_of_ours(server: Server) -> None:
    declared = b"content-length: 9000\r\n\r\n"
    assert told(server, LOGIN, declared, b"{") == (408, "REQUEST_TIMEOUT")
    before = len(ended(server, "/login", 408))
    with closing(dial(server)) as line:
        send(line, LOGIN, declared, b"{")
    eventually(lambda: len(ended(server, "/login", 408)) > before)
    assert not server.logged("unexpected error")
    assert not [line for line in server.lines if "Traceback" in line]


def ended(server: Server, path: str, status: int) -> list[dict[str, Any]]:
    requests = server.logged("request")
    return [line for line in requests if (line["path"], line["status"]) == (path, status)]


def test_a_body_that_is_slow_is_let_be(server: Server) -> None:
    """It takes longer than any silence may, and is never silent."""
    body = PART + picture("PNG") + b"\r\n--b--\r\n"
    with closing(dial(server)) as line:
        line.sendall(UPLOAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body))
        pieces = [body[start : start + 20] for start in range(0, len(body), 20)]
        for piece in pieces:
            line.sendall(piece)
            time.sleep(1.5 * PATIENCE_SECONDS / len(pieces))
        assert hear(line)[0] == 201


def test_a_socket_outlives_the_limits_and_its_client_may_speak(server: Server) -> None:
    url = server.url.replace("http", "ws", 1) + "/api/organizations/default/live"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with connect(url, additional_headers=headers) as live:
        for message in ("hello", b"\0" * 1000, "x" * 60_000, [b"in", b"pieces"]):
            live.send(message)
        time.sleep(1.25 * PATIENCE_SECONDS)
        live.send("still here")
        server.upload(picture(), "told.jpg")
        while json.loads(live.recv(20)).get("name") != "told.jpg":
            pass
        live.send(b"\0" * 70_000)
        eventually(lambda: live.close_code == 1009)
    assert not [line for line in server.lines if "Traceback" in line]


@pytest.mark.parametrize("frame", [b"\x82\x80\0\0\0\0", b"\x89\x80\0\0\0\0"], ids=["empty", "ping"])
def test_a_flood_of_frames(server: Server, frame: bytes) -> None:
    url = server.url.replace("http", "ws", 1) + "/api/organizations/default/live"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with connect(url, additional_headers=headers) as live:
        with suppress(OSError):
            for _ in range(200):
                live.socket.sendall(frame * 1000)
        eventually(lambda: live.close_code == 1006)


def test_a_crowd_from_one_address(server: Server) -> None:
    """More than there are files; others are served, and the crowd hears why it is not."""
    with ExitStack() as stack:
        for number in range(1100):
            with suppress(ConnectionError):
                line = stack.enter_context(closing(dial(server)))
                line.sendall(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
        with closing(dial(server, "127.0.0.2")) as other:
            other.sendall(b"GET /readyz HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")
            assert hear(other)[0] == 200
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with server.client(transport=transport) as client:
        refused = client.get("/metrics").text
    assert 'safelight_refused_connections_total{code="UNAVAILABLE"}' in refused
    eventually(lambda: latencies(server, 1))


def test_who_is_turned_away() -> None:
    limits = DoorLimits.of(load({"max_connections": 8}), 5000)
    assert (limits.connections, limits.connections_per_address) == (8, 4)
    keeper = Doorkeeper(limits, Metrics(), ("10.0.0.0/8",))
    assert [keeper.enter(n, ("10.1.1.1", 1)) > 0 for n in range(5)] == [False] * 5
    for number in range(5):
        keeper.leave(number)
    one_customer = [keeper.enter(n, (f"2001:db8::{n}", 1)) for n in range(6)]
    assert one_customer[-2:] == [1, 2]
    assert keeper.enter("another", ("192.0.2.1", 1)) <= 0
    assert [keeper.enter(f"proxy {n}", ("10.1.1.1", 1)) for n in range(2)] == [0, 1]


def test_there_are_two_files_for_each_connection() -> None:
    assert DoorLimits.of(load(), 1024).connections < 1024 // 2
    assert DoorLimits.of(load(), 1_000_000).connections == 8192


def test_where_files_have_no_limit_there_is_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (endless, endless))
    assert DoorLimits.of(load(), files_allowed()).connections == 8192


@pytest.mark.parametrize("refusal", [ValueError, OSError])
def test_a_system_that_gives_no_more_files_stops_no_start(
    monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    asked = []

    def refuse(*given: Any) -> None:
        asked.append(given)
        raise refusal

    monkeypatch.setattr(resource, "setrlimit", refuse)
    open_more_files()
    assert asked
