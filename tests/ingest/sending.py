"""Uploads as bytes on the wire, and what an answer has to look like."""

import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

import httpx

from harness import Server

LIMIT = 2 * 1024 * 1024  # of the server in conftest.py
FORM = {"content-type": "multipart/form-data; boundary=b"}


def refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert set(answer.json()) == {"error", "code"}
    assert answer.json()["error"]


def raw(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def send(server: Server, body: bytes | Iterable[bytes], **params: str) -> httpx.Response:
    """A body as it is; chunked if it comes in pieces."""
    with server.client() as client:
        return client.post("/api/upload", content=body, headers=FORM, params=params)


def part(disposition: str | bytes, content: bytes) -> bytes:
    """A file's part with that file name, exactly as written."""
    text = disposition.encode() if isinstance(disposition, str) else disposition
    return (
        b'--b\r\nContent-Disposition: form-data; name="file"; ' + text + b"\r\n"
        b"Content-Type: image/png\r\n\r\n" + content + b"\r\n"
    )


END = b"--b--\r\n"
