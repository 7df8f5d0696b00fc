"""The upload contract through the public interface: a real server, real sockets."""

import hashlib
import itertools
import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from harness import TOKEN, Server, eventually, picture
from headers.heif_files import heic
from ingest.sending import LIMIT, raw, refused

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIC"])
def test_an_upload_is_recorded(server: Server, kind: str) -> None:
    content = heic(32, 18) if kind == "HEIC" else picture(kind, (32, 18))
    answer = server.upload(content, f"photo.{kind.lower()}")
    assert answer.status_code == 201
    body = answer.json()
    assert set(body) == {"imageId", "status", "checksum", "sizeBytes", "uploadedAt"}
    assert body["status"] == "INGESTED"
    assert body["checksum"] == hashlib.sha256(content).hexdigest()
    assert body["sizeBytes"] == len(content)
    assert ISO.fullmatch(body["uploadedAt"])
    assert re.fullmatch(r"img_\d{4}-\d\d-\d\d_[0-9a-z]+", body["imageId"])

    with server.client() as client:
        record = client.get(f"/api/images/{body['imageId']}").json()
        history = client.get(f"/api/images/{body['imageId']}/history").json()
    assert (record["width"], record["height"], record["sizeBytes"]) == (32, 18, len(content))
    assert record["mimeType"] == f"image/{kind.lower()}"
    assert record["organizationId"] == "default"
    assert "tempPath" not in record
    assert [(item.get("from"), item["to"]) for item in history["items"]] == [
        (None, "UPLOADED"),
        ("UPLOADED", "INGESTED"),
    ]
    extension = "jpg" if kind == "JPEG" else kind.lower()
    stored = server.ingest_dir / f"{body['imageId']}.{extension}"
    assert stored.read_bytes() == content


def test_the_same_file_twice_is_two_records(server: Server) -> None:
    first, second = (server.upload(picture(), "twin.jpg").json() for _ in range(2))
    assert first["imageId"] != second["imageId"]
    assert first["checksum"] == second["checksum"]


def test_the_log_line(server: Server) -> None:
    body = server.upload(picture(), "logged.jpg").json()
    line = eventually(
        lambda: [line for line in server.logged("[Upload]") if line["imageId"] == body["imageId"]]
    )[0]
    for name in ("imageId", "tempPath", "checksum", "sizeBytes", "durationMs", "timestamp"):
        assert name in line
    assert (line["transition"], line["status"]) == ("UPLOADED → INGESTED", "INGESTED")
    assert TOKEN not in "\n".join(server.lines)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"just some text, renamed", "notes.jpg"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "drawing.svg"),
        (b"II*\x00" + bytes(100), "scan.tiff"),
        (picture("JPEG")[:20], "truncated.jpg"),
        (picture("PNG")[:20], "truncated.png"),
        (b"", "empty.jpg"),
        (bytes(5000), "zeroes.png"),
    ],
)
def test_what_is_not_an_accepted_image(server: Server, content: bytes, name: str) -> None:
    refused(server.upload(content, name), 400, "INVALID_FILE_TYPE")


def test_too_many_pixels_by_the_header_alone(server: Server) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    )
    refused(server.upload(bomb, "bomb.png"), 413, "FILE_TOO_LARGE")


def test_over_the_limit_with_a_length(server: Server) -> None:
    refused(server.upload(picture("PNG") + bytes(LIMIT + 200_000)), 413, "FILE_TOO_LARGE")


def test_over_the_limit_without_a_length(server: Server) -> None:
    """The client sends everything before it reads, as many do, and still gets its answer."""

    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
        yield picture("PNG")
        for _ in range(20):
            yield bytes(1024 * 1024)
        yield b"\r\n--b--\r\n"

    with server.client() as client:
        answer = client.post(
            "/api/upload",
            content=body(),
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
    refused(answer, 413, "FILE_TOO_LARGE")


def test_large_pieces_and_small_ones_arrive_in_their_order(server: Server) -> None:
    """A large one is handed on as it is, until others join it."""
    content = picture("PNG") + b"".join(b"%06d" % number for number in range(60_000))
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + content + b"\r\n--b--\r\n"
    )
    sizes, pieces = itertools.cycle([9000, 20, 20, 5000, 70_000, *[17] * 300]), []
    while body:
        size = next(sizes)
        pieces.append(b"%x\r\n%b\r\n" % (len(body[:size]), body[:size]))
        body = body[size:]
    head = f"POST /api/upload HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {TOKEN}\r\n"
    head += "content-type: multipart/form-data; boundary=b\r\nconnection: close\r\n"
    with raw(server) as line:
        line.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
        line.sendall(b"".join(pieces) + b"0\r\n\r\n")
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["checksum"] == (
        hashlib.sha256(content).hexdigest()
    )


def test_exactly_at_the_limit(server: Server) -> None:
    content = picture("PNG")
    assert server.upload(content + bytes(LIMIT - len(content))).status_code == 201
    refused(server.upload(content + bytes(LIMIT - len(content) + 1)), 413, "FILE_TOO_LARGE")


def test_an_unauthenticated_upload_is_answered(server: Server) -> None:
    with server.client(token=None) as client:
        answer = client.post("/api/upload", files={"file": ("a.png", bytes(1_500_000))})
    refused(answer, 401, "UNAUTHENTICATED")


def test_a_client_that_waits_for_100_continue_sends_nothing_in_vain(server: Server) -> None:
    head = (
        f"POST /api/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {LIMIT * 50}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with raw(server) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_the_checksum_header(server: Server) -> None:
    content = picture()
    right = hashlib.sha256(content).hexdigest()
    good = server.upload(content, headers={"x-content-sha256": right.upper()})
    assert good.status_code == 201
    for wrong in ("0" * 64, "nonsense", ""):
        answer = server.upload(content, headers={"x-content-sha256": wrong})
        refused(answer, 400, "CHECKSUM_ERROR")


def test_parts(server: Server) -> None:
    with server.client() as client:
        two = client.post("/api/upload", files=[("file", ("a.jpg", picture()))] * 2)
        other = client.post("/api/upload", files={"photo": ("a.jpg", picture())})
        none = client.post("/api/upload", files={"note": (None, "text")})
        fields = client.post("/api/upload", files={"file": ("a.jpg", picture()), "x": (None, "y")})
        as_json = client.post("/api/upload", json={"file": "a.jpg"})
        empty = client.post("/api/upload")
    for answer in (two, other, none):
        refused(answer, 400, "INVALID_FILE_TYPE")
    assert fields.status_code == 201
    for answer in (as_json, empty):
        refused(answer, 400, "STREAM_ERROR")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no boundary at all",
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nxx',
        b"--b\r\nX" * 30,
        b"--b\r\nContent-Disposition: " + b"x" * 20_000,
    ],
)
def test_malformed_multipart(server: Server, body: bytes) -> None:
    with server.client() as client:
        answer = client.post(
            "/api/upload", content=body, headers={"content-type": "multipart/form-data; boundary=b"}
        )
    refused(answer, 400, "STREAM_ERROR")


@pytest.mark.parametrize("portion", ["nothing", "half", "all but the last boundary"])
def test_a_cut_connection_leaves_nothing(server: Server, portion: str) -> None:
    content = picture("PNG") + bytes(1_800_000)
    opening = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    body = opening + content + b"\r\n--b--\r\n"
    sent = {"nothing": 0, "half": len(body) // 2, "all but the last boundary": len(body) - 10}[
        portion
    ]
    before = len(server.logged("[Upload Error]"))
    with raw(server) as connection:
        connection.sendall(
            f"POST /api/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body[:sent]
        )
    eventually(lambda: len(server.logged("[Upload Error]")) > before)
    assert server.logged("[Upload Error]")[-1]["code"] == "STREAM_ERROR"


NAMES = [
    ("../../etc/passwd", "passwd"),
    ("photos\\cat.jpg", "cat.jpg"),
    ("nul\x01l.jpg", "null.jpg"),
    ("🐈 cat.jpg", "🐈 cat.jpg"),
    ("\u202egpj.exe", "gpj.exe"),
    ("...", "image.jpg"),
    ("e" * 300 + ".jpeg", "e" * 250 + ".jpeg"),
    ("Cafe\u0301.jpg", "Café.jpg"),
]


@pytest.mark.parametrize(("sent", "kept"), NAMES)
def test_file_names_are_cleaned(server: Server, sent: str, kept: str) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="'
        + sent.encode().replace(b"\\", b"\\\\")
        + b'"\r\n\r\n' + picture() + b"\r\n--b--\r\n"
    )  # fmt: skip
    with server.client() as client:
        answer = client.post(
            "/api/upload", content=body, headers={"content-type": "multipart/form-data; boundary=b"}
        )
        assert answer.status_code == 201, answer.text
        path = f"/api/images/{answer.json()['imageId']}"
        record, story = client.get(path).json(), client.get(path + "/history").json()
    assert record["name"] == kept
    assert ("reason" in story["items"][0]) == (sent != kept)


def test_a_given_name_is_never_cleaned(server: Server) -> None:
    for bad in ("../x.jpg", " x.jpg", "x\x00.jpg", "", "e" * 256):
        refused(server.upload(picture(), params={"name": bad}), 422, "INVALID_REQUEST")
    image = server.upload(picture(), params={"name": "mine.jpg"}).json()["imageId"]
    with server.client() as client:
        assert client.get(f"/api/images/{image}").json()["name"] == "mine.jpg"


def test_conflicts(server: Server) -> None:
    def name_of(answer: httpx.Response) -> str:
        with server.client() as client:
            return str(client.get(f"/api/images/{answer.json()['imageId']}").json()["name"])

    names = [
        name_of(server.upload(picture(), "busy.jpg", params={"onConflict": "rename"}))
        for _ in range(3)
    ]
    assert names == ["busy.jpg", "busy (2).jpg", "busy (3).jpg"]
    refuse = server.upload(picture(), "busy.jpg", params={"onConflict": "refuse"})
    refused(refuse, 409, "NAME_TAKEN")
    assert name_of(server.upload(picture(), "busy.jpg")) == "busy.jpg"
    refused(server.upload(picture(), params={"onConflict": "maybe"}), 422, "INVALID_REQUEST")


def test_another_organization_sees_nothing(server: Server, tmp_path: Path) -> None:
    image = server.upload(picture()).json()["imageId"]
    with server.client() as client:
        paths = [f"/api/images/{image}", f"/api/images/{image}/history"]
        assert all(client.get(path).status_code == 200 for path in paths)
        refused(client.post("/api/upload?organizationId=other"), 404, "NOT_FOUND")
    for strange in ("img_2020-01-01_none", "%00", "..", "x" * 3000):
        with server.client() as client:
            assert client.get(f"/api/images/{strange}").status_code in {404, 422}


def test_errors_have_one_shape(server: Server) -> None:
    with server.client() as client:
        answers = [
            client.get("/nowhere"),
            client.put("/api/upload"),
            client.get("/api/images/none"),
            client.get("/api/images/none/history?limit=0"),
        ]
        page = client.get("/nowhere", headers={"accept": "text/html"})
    assert [answer.status_code for answer in answers] == [404, 405, 404, 422]
    for answer in answers:
        assert set(json.loads(answer.text)) == {"error", "code"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "worker-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-request-id"]
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
