"""Uploads that lie about what they are or how much of it there is, and photographs that only seem to."""

import struct
from collections.abc import Iterator
from itertools import repeat

import pytest

from harness import Server, eventually, picture
from headers.heif_files import HEIC, av1, heif, hevc, still, tiled
from ingest.sending import END, LIMIT, part, refused, send

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

MIB = 1024 * 1024
OVERHEAD = 64 * 1024  # of a body around its file


# Pictures


def behind_metadata(length: int) -> bytes:
    """A photograph with that much colour profile, preview and depth map before its frame header."""
    segment = b"\xff\xe2" + struct.pack(">H", 0xFFFF) + b"ICC_PROFILE\0" + bytes(0xFFFF - 14)
    whole = picture("JPEG")
    return whole[:2] + segment * (length // len(segment)) + whole[2:]


@pytest.mark.parametrize("length", [100_000, 1_900_000])
def test_a_photograph_with_much_metadata(server: Server, length: int) -> None:
    answer = server.upload(behind_metadata(length))
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (heif(still(av1(640, 480), (64, 64))), "holds a picture of 640 × 480"),
        (heif(still(hevc(640, 480), (64, 64)), brands=HEIC), "holds a picture of 640 × 480"),
        (tiled(av1(64, 64), 16, 16, (64, 64)), "too many or too few for its size"),
        (tiled(av1(640, 480), 2, 2, (128, 128)), "holds a picture of 640 × 480"),
        (b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0\x2f" + struct.pack("<I", 9999 | 9999 << 14) + bytes(13),
         "38 bytes for 10000 × 10000 pixels"),
        (b"\xff\xd8" + b"\xff\xe1\0\2" * 5000, "more than 4,096 segments"),
        (heif(still(av1(64, 64), (64, 64)))[:200], "cut short"),
    ],
    ids=["AVIF", "HEIC", "grid", "tiles", "flat", "segments", "truncated"],
)  # fmt: skip
def test_pictures_that_lie(server: Server, content: bytes, words: str) -> None:
    answer = server.upload(content)
    refused(answer, 400, "INVALID_FILE_TYPE")
    assert words in answer.json()["error"]


def test_a_grid_counts_with_all_of_its_tiles(server: Server) -> None:
    """A few hundred tiles that are the same small file."""
    tile = av1(1024, 1024)
    content = tiled(tile, 10, 10, (10_240, 10_240), tile_claims=(1024, 1024))
    assert len(content) < 50_000
    refused(server.upload(content), 413, "FILE_TOO_LARGE")


# Bodies


def file_part() -> bytes:
    return part('filename="a.png"', picture("PNG"))


def field(length: int) -> Iterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\n'
    yield from repeat(bytes(MIB), length // MIB)
    yield b"\r\n"


def surrounded(where: str, length: int) -> Iterator[bytes]:
    match where:
        case "field before":
            yield from (*field(length), file_part(), END)
        case "field behind":
            yield from (file_part(), *field(length), END)
        case "epilogue":
            yield from (file_part(), END, *repeat(bytes(MIB), length // MIB))
        case "preamble":
            yield from (*repeat(b"\r\n" * (MIB // 2), length // MIB), file_part(), END)


@pytest.mark.parametrize("where", ["field before", "field behind", "epilogue", "preamble"])
@pytest.mark.parametrize("is_chunked", [True, False])
def test_the_whole_body_counts(server: Server, where: str, is_chunked: bool) -> None:
    pieces = list(surrounded(where, LIMIT + MIB))
    body = iter(pieces) if is_chunked else b"".join(pieces)
    refused(send(server, body), 413, "FILE_TOO_LARGE")


def test_what_surrounds_a_file_may_be_small(server: Server) -> None:
    content = picture("PNG") + bytes(LIMIT - len(picture("PNG")))
    body = [part('filename="a.png"', content), *field(0), END]
    assert send(server, b"".join(body)).status_code == 201
    assert send(server, iter(body)).status_code == 201
    too_much = [*body, bytes(OVERHEAD)]
    refused(send(server, iter(too_much)), 413, "FILE_TOO_LARGE")


# Names


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('filename="a%22b.png"', 'a"b.png'),  # Chromium, Firefox, Safari, curl, httpx, requests
        (r'filename="a\"b.png"', 'a"b.png'),  # curl --form-escape, Python's email package
        ('filename="a%0D%0Ab.png"', "ab.png"),  # a line break, by browsers
        ('filename="a%0d%0ab.png"', "ab.png"),
        ('filename="100%25 a%20b.png"', "100%25 a%20b.png"),  # a browser leaves % as it is
        ('filename="50%.png"', "50%.png"),
        ('filename="%22.png"', '".png'),
        ('filename="%2222.png"', '"22.png'),
        ('filename="%22%2F..%22.png"', '"%2F..".png'),
        ('filename="grüße.png"', "grüße.png"),  # all of them, in UTF-8
        ('filename="gr%C3%BC%C3%9Fe.png"', "gr%C3%BC%C3%9Fe.png"),  # aiohttp, by its default
        ("filename=\"x.png\"; filename*=utf-8''y.png", "x.png"),  # not for forms: RFC 7578
    ],
)
def test_file_names_as_clients_write_them(server: Server, sent: str, kept: str) -> None:
    answer = send(server, part(sent, picture("PNG")) + END)
    assert answer.status_code == 201, answer.text
    with server.client() as client:
        assert client.get(f"/api/images/{answer.json()['imageId']}").json()["name"] == kept


def test_the_same_through_a_client(server: Server) -> None:
    answer = server.upload(picture("PNG"), 'say "cheese".png')
    with server.client() as client:
        name = client.get(f"/api/images/{answer.json()['imageId']}").json()["name"]
    assert name == 'say "cheese".png'


# What is told of them


def counted(server: Server, code: str) -> float:
    with server.client() as client:
        metrics = client.get("/metrics").text
    lines = [line for line in metrics.splitlines() if f'outcome="{code}"' in line]
    return sum(float(line.split()[-1]) for line in lines if "uploads_total" in line)


@pytest.mark.parametrize(
    ("code", "status"),
    [("UNAUTHENTICATED", 401), ("FORBIDDEN", 403), ("NOT_FOUND", 404), ("INVALID_REQUEST", 422)],
)
def test_refusals_before_the_handler_are_told_and_counted(
    server: Server, code: str, status: int
) -> None:
    token = None if status == 401 else viewer(server) if status == 403 else "same"
    params = {404: {"organizationId": "elsewhere"}, 422: {"onConflict": "maybe"}}.get(status, {})
    before, told = counted(server, code), len(server.logged("[Upload Error]"))
    with server.client(**({} if token == "same" else {"token": token})) as client:
        files = {"file": ("a.png", picture("PNG"))}
        answer = client.post("/api/upload", params=params, files=files)
    refused(answer, status, code)
    eventually(lambda: len(server.logged("[Upload Error]")) == told + 1)
    assert server.logged("[Upload Error]")[-1]["code"] == code
    assert counted(server, code) == before + 1


def viewer(server: Server) -> str:
    with server.client() as client:
        answer = client.post("/api/organizations/default/tokens", json={"role": "viewer"})
    return str(answer.json()["token"])


def test_enqueueing_is_logged(server: Server) -> None:
    image = server.upload(picture("PNG")).json()["imageId"]
    lines = eventually(lambda: [x for x in server.logged("job enqueued") if x["imageId"] == image])
    assert [line["kind"] for line in lines] == ["ingest.offload"]
