"""The bytes between Safelight and a child: one request, one answer, then the server's last word.

Request and answer are a JSON head with its length before it, and bytes. The last word (`Ending`)
has a fixed size, so that it can be found behind whatever a dying child left.
"""

import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

_LENGTH = struct.Struct("!I")
_ENDING = struct.Struct("!iiBQ")
_HEAD_BYTES = 64 * 1024
_CHUNK = 256 * 1024


class Garbled(Exception):
    """What arrived is not what the protocol says."""


@dataclass(frozen=True, slots=True)
class Request:
    task: str
    parameters: dict[str, Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    facts: dict[str, Any]
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended. `signal` is 0 when it was none; `late` when the server ended it."""

    code: int
    signal: int
    late: bool
    peak_bytes: int

    def pack(self) -> bytes:
        return _ENDING.pack(self.code, self.signal, self.late, self.peak_bytes)


def pack_request(request: Request) -> bytes:
    head = {"task": request.task, "parameters": request.parameters, "size": len(request.data)}
    return _head(head)


def receive_request(connection: socket.socket) -> Request:
    length = _LENGTH.unpack(_exactly(connection, _LENGTH.size))[0]
    head = json.loads(_exactly(connection, min(length, _HEAD_BYTES)))
    return Request(head["task"], head["parameters"], _exactly(connection, head["size"]))


def send_answer(connection: socket.socket, answer: Answer) -> None:
    connection.sendall(_head(answer.facts))
    connection.sendall(answer.data)


def unpack(output: bytes) -> tuple[bytes, Ending]:
    """The child's output, and how it ended."""
    if len(output) < _ENDING.size:
        raise Garbled
    code, signal, late, peak = _ENDING.unpack(output[-_ENDING.size :])
    return output[: -_ENDING.size], Ending(code, signal, bool(late), peak)


def unpack_answer(output: bytes) -> Answer:
    try:
        start = _LENGTH.size
        end = start + _LENGTH.unpack(output[:start])[0]
        facts = json.loads(output[start:end])
    except (struct.error, ValueError) as error:
        raise Garbled from error
    if not isinstance(facts, dict):
        raise Garbled
    return Answer(facts, output[end:])


def _head(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return _LENGTH.pack(len(text)) + text


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = connection.recv(min(_CHUNK, size - len(found)))
        if not chunk:
            raise Garbled
        found += chunk
    return bytes(found)
