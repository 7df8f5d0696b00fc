"""Bodies nobody would send, to a real server: each is one of the contract's answers and leaves
nothing but what was accepted."""

from collections.abc import Iterator

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import Server, picture
from ingest.sending import FORM
from safelight.ingest.contract import ERRORS

ANSWERS = {(error.status, error.code) for error in ERRORS} | {(422, "INVALID_REQUEST")}
SERVERS_OWN_FAULT = 500

PNG = picture("PNG")
BOUNDARIES = st.sampled_from(
    [b"--b", b"--b\r\n", b"\r\n--b\r\n", b"\r\n--b--\r\n", b"--b--", b"\r\n--b--", b"\n--b\n"]
)
HEADERS = st.sampled_from(
    [
        b'Content-Disposition: form-data; name="file"; filename="a.png"\r\n',
        b'content-disposition:form-data;name=file;filename="\\"%22\xff.png"\r\n',
        b'Content-Disposition: form-data; name="file"\r\n',
        b'Content-Disposition: form-data; name="note"\r\n',
        b'Content-Disposition: form-data; name="other"; filename="b.png"\r\n',
        b"Content-Disposition: form-data\r\n",
        b"Content-Disposition: \r\n",
        b"Content-Type: image/png\r\n",
        b"Content-Transfer-Encoding: base64\r\n",
        b"X: " + b"y" * 9000 + b"\r\n",
        b": nameless\r\n",
        b"no colon\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\r\n\r\n",
    ]
)
CONTENT = st.sampled_from([PNG, PNG[:30], b"", b"\r\n", b"\r\n--", b"\r\n--bb", b"x" * 70_000])
PIECES = st.lists(BOUNDARIES | HEADERS | CONTENT | st.binary(max_size=9), max_size=12)
GOOD = [
    b"--b\r\n",
    b'Content-Disposition: form-data; name="file"; filename="a.png"\r\n',
    b"\r\n",
    PNG,
    b"\r\n--b--\r\n",
]
EDITS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), BOUNDARIES | HEADERS | CONTENT), max_size=3
)


def ask(client: httpx.Client, pieces: list[bytes], *, is_chunked: bool) -> httpx.Response:
    def chunks() -> Iterator[bytes]:
        yield from pieces

    body = chunks() if is_chunked else b"".join(pieces)
    return client.post("/api/upload", content=body, headers=FORM)


def judge(answer: httpx.Response) -> bool:
    """Whether it was accepted."""
    if answer.status_code == 201:
        return True
    body = answer.json()
    assert set(body) == {"error", "code"}
    assert (answer.status_code, body["code"]) in ANSWERS
    assert answer.status_code < SERVERS_OWN_FAULT, answer.text
    return False


@pytest.mark.usefixtures("nothing_left_behind")
def test_bodies(server: Server) -> None:
    accepted = 0

    @settings(deadline=None, max_examples=80)
    @given(PIECES | EDITS.map(edited), st.booleans())
    @example(GOOD, True)
    @example([b"--b--\r\n"], True)
    @example([b"--b\r\n\r\n\r\n--b--\r\n"], False)
    @example([*GOOD[:3], *GOOD], True)
    @example([*GOOD, *GOOD], False)
    @example([b"\r\n" * 20_000, *GOOD], True)
    @example([*GOOD[:1], b"Content-Disposition: form-data; name=\xff\xfe\r\n", *GOOD[2:]], False)
    def one(pieces: list[bytes], is_chunked: bool) -> None:
        nonlocal accepted
        accepted += judge(ask(client, pieces, is_chunked=is_chunked))

    before = len(server.files())
    with server.client() as client:
        one()
    assert accepted
    assert len([name for name in server.files() if not name.startswith(".")]) == before + accepted


def edited(edits: list[tuple[int, int, bytes]]) -> list[bytes]:
    """A good body in which pieces were put in or exchanged."""
    pieces = list(GOOD)
    for at, removed, piece in edits:
        pieces[at : at + removed] = [piece]
    return pieces
