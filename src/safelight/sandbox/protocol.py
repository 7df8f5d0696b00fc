"""What Safelight and a child say to each other: the values, and their bytes on the wire. Nothing
here opens anything.

One request, one answer, then the server's last word. Request and answer are a JSON head with its
length before it, and bytes. The last word (`Ending`) has a fixed size, so that it can be found
behind whatever a dying child left.
"""

import json
import socket
import struct
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

_LENGTH = struct.Struct("!I")
_ENDING = struct.Struct("!iiBQ")
_HEAD_BYTES = 64 * 1024
_CHUNK = 256 * 1024


# What a child tells about an image


class FaultKind(StrEnum):
    NOT_AN_IMAGE = "not_an_image"
    BROKEN = "broken"  # begins as an image, cannot be decoded to its end
    MEMORY = "memory"
    CPU = "cpu"
    CRASH = "crash"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Fault:
    """`detail` is the decoder's own words, for people who look closer."""

    kind: FaultKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Beyond these, an image is described by its header and not decoded."""

    max_pixels: int
    max_frames: int
    max_total_pixels: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Traces:
    """What an image says about where it comes from."""

    exif: bool = False
    gps: bool = False
    xmp: bool = False
    camera: str | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """`end` is where the image's own data ends in the file, None where that cannot be told;
    `decoded` counts the frames that were decoded whole. The prints are 64 bits in hex; a picture
    without contrast has none, since all such pictures would look the same."""

    size: int
    content_type: str | None = None
    width: int = 0
    height: int = 0
    frames: int = 0
    decoded: int = 0
    unpacked_bytes: int = 0
    end: int | None = None
    traces: Traces = field(default_factory=Traces)
    dhash: str | None = None
    phash: str | None = None
    fault: Fault | None = None

    @property
    def pixels(self) -> int:
        return self.width * self.height

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, facts: dict[str, Any]) -> "Inspection":
        fault = facts["fault"]
        return cls(
            **{
                **facts,
                "traces": Traces(**facts["traces"]),
                "fault": Fault(FaultKind(fault["kind"]), fault["detail"]) if fault else None,
            }
        )

    @classmethod
    def died(cls, reason: str, size: int) -> "Inspection":
        return cls(size, fault=Fault(FaultKind(reason)))


@dataclass(frozen=True, slots=True)
class Rendition:
    """`square` is the whole picture squeezed into a square, as raw RGB, if that was asked for."""

    content_type: str
    width: int
    height: int
    data: bytes
    square: bytes = b""

    @classmethod
    def load(cls, facts: dict[str, Any], data: bytes) -> "Rendition":
        cut = facts["square"]
        return cls(facts["content_type"], facts["width"], facts["height"], data[cut:], data[:cut])


# On the wire


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
