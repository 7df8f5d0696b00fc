"""What Safelight and a child say to each other: the values, and their bytes on the wire. Nothing
here opens anything.

A child first says what protects it, then answers requests one by one. A request is a JSON head with
its length before it, and a descriptor that holds the bytes; an answer is a JSON head and bytes,
before them both lengths and whether it was the child's last. What a child says is not to be
trusted: whatever does not fit is `Garbled`.
"""

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from safelight.headers.probe import HEADER_BYTES, ImageFormat, NotAnImage, read_header
from safelight.sandbox import facts as said
from safelight.sandbox.facts import Garbled, ensure, maybe

_LENGTH = struct.Struct("!I")
_DESCRIPTOR = struct.Struct("i")
_ENVELOPE = struct.Struct("!IQ?")
ENVELOPE_BYTES = _ENVELOPE.size
MOST_HEAD_BYTES = 64 * 1024
_MOST_FACTS_BYTES = 1024 * 1024
LONGEST_DETAIL: Final = 200
LONGEST_WORDS: Final = 500
LONGEST_CAMERA: Final = 100
_COUNTS: Final = ("size", "width", "height", "pixels", "frames", "decoded", "unpacked_bytes")
_LOOKS: Final = ("dhash", "phash", "dark_dhash", "dark_phash")
# What is published is one of these; the dark view is only for models.
_DRAWN: Final = frozenset({ImageFormat.JPEG, ImageFormat.WEBP})
_MOST_VIEWS: Final = 2
_LONGEST: Final = 65_535  # JPEG has no more


# What a child tells about an image


class FaultKind(StrEnum):
    NOT_AN_IMAGE = "not_an_image"
    BROKEN = "broken"  # begins as an image, cannot be decoded to its end
    UNSUPPORTED = "unsupported"  # may be sound, and is of a form that is not opened here
    MEMORY = "memory"
    CPU = "cpu"
    CRASH = "crash"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Fault:
    """`detail` is the decoder's own words, for people who look closer."""

    kind: FaultKind
    detail: str = ""

    @classmethod
    def load(cls, value: object) -> "Fault":
        found = said.fields(value, cls.__slots__)
        kind = said.one_of(FaultKind, found["kind"])
        return cls(kind, said.words(found["detail"], LONGEST_DETAIL))


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

    @classmethod
    def load(cls, value: object) -> "Traces":
        found = said.fields(value, cls.__slots__)
        exif, gps, xmp = (said.flag(found[name]) for name in ("exif", "gps", "xmp"))
        camera = maybe(lambda text: said.words(text, LONGEST_CAMERA), found["camera"])
        return cls(exif, gps, xmp, camera)


class TailKind(StrEnum):
    HIDDEN = "hidden"  # something that other programs find and open
    HARMLESS = "harmless"  # what cameras leave
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tail:
    """What a file holds behind the end of its image; `what` is in words."""

    kind: TailKind
    what: str

    @classmethod
    def load(cls, value: object) -> "Tail":
        found = said.fields(value, cls.__slots__)
        kind = said.one_of(TailKind, found["kind"])
        return cls(kind, said.words(found["what"], LONGEST_DETAIL))


@dataclass(frozen=True, slots=True)
class Inspection:
    """`pixels` is how many opening it takes: more than its width times its height where more is
    coded in it than it shows. `end` is where the image's own data ends in the file, None where that
    cannot be told; `tail` is what follows it, if anything. `decoded` counts the frames that were
    decoded whole. The prints are 64 bits in hex; a picture without contrast has none, since all
    such pictures would look the same. The dark ones are of a picture that looks different on black
    than on white."""

    size: int
    content_type: str | None = None
    width: int = 0
    height: int = 0
    pixels: int = 0
    frames: int = 0
    decoded: int = 0
    unpacked_bytes: int = 0
    end: int | None = None
    tail: Tail | None = None
    traces: Traces = field(default_factory=Traces)
    dhash: str | None = None
    phash: str | None = None
    dark_dhash: str | None = None
    dark_phash: str | None = None
    fault: Fault | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, facts: dict[str, Any], size: int) -> "Inspection":
        """`size` is the file's, as we know it."""
        given = said.fields(facts, cls.__slots__)
        counts = {name: said.count(given[name]) for name in _COUNTS}
        looks = {name: maybe(said.look, given[name]) for name in _LOOKS}
        rest: dict[str, Any] = {
            "content_type": maybe(
                lambda kind: said.one_of(ImageFormat, kind), given["content_type"]
            ),
            "end": maybe(lambda end: said.count(end, size), given["end"]),
            "tail": maybe(Tail.load, given["tail"]),
            "traces": Traces.load(given["traces"]),
            "fault": maybe(Fault.load, given["fault"]),
        }
        found = cls(**rest | counts | looks)
        ensure(found.size == size and found._agrees())
        return found

    def _agrees(self) -> bool:
        """Whether each could be true if the others are."""
        light, dark = self.dhash is not None, self.dark_dhash is not None
        return (
            (self.phash is not None) is light
            and (self.dark_phash is not None) is dark
            and (self.decoded > 0 or not (light or dark))
            and (self.tail is None or self.end is not None)
            and (self.content_type is not None or self.frames == 0)
            and self.decoded <= self.frames
            and self.width * self.height <= self.pixels
        )

    @classmethod
    def died(cls, reason: FaultKind, size: int) -> "Inspection":
        return cls(size, fault=Fault(reason))


@dataclass(frozen=True, slots=True)
class Rendition:
    """`square` is the whole picture squeezed into a square, as raw RGB, if that was asked for.
    `dark` is what a see-through picture looks like on black, only to be judged: what is published
    is this one, on white. Both know that there is another way to see it."""

    content_type: str
    width: int
    height: int
    data: bytes
    square: bytes = b""
    see_through: bool = False
    dark: "Rendition | None" = None

    @property
    def views(self) -> "tuple[Rendition, ...]":
        """Everything that somebody might take the picture for."""
        return (self, self.dark) if self.dark else (self,)

    @classmethod
    def load(
        cls,
        facts: dict[str, Any],
        data: bytes,
        *,
        max_side: int | None = None,
        square: int | None = None,
    ) -> "Rendition":
        """The views stand one behind the other, each with its square first. `max_side` and `square`
        are as they were asked for."""
        views, at = said.fields(facts, ("views",))["views"], len(data)
        ensure(isinstance(views, list) and len(views) <= _MOST_VIEWS)
        found: Rendition | None = None
        for view in reversed(views):
            shape = _Shape.load(view, max_side, square)
            start = at - shape.size
            cut = start - shape.square
            ensure(cut >= 0)
            drawn = data[start:at]
            ensure(shape.fits(drawn))
            kind = (shape.content_type, shape.width, shape.height)
            found = cls(*kind, drawn, data[cut:start], len(views) > 1, found)
            at = cut
        if found is None or at > 0:
            raise Garbled
        return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a child says of one view."""

    content_type: str
    width: int
    height: int
    square: int
    size: int

    @classmethod
    def load(cls, value: object, max_side: int | None, square: int | None) -> "_Shape":
        found = said.fields(value, cls.__slots__)
        kind = said.one_of(ImageFormat, found["content_type"])
        longest = max_side or _LONGEST
        width, height = (said.count(found[name], longest) for name in ("width", "height"))
        shape = cls(kind, width, height, said.count(found["square"]), said.count(found["size"]))
        ensure(kind in _DRAWN and shape.square == 3 * (square or 0) ** 2)
        return shape

    def fits(self, drawn: bytes) -> bool:
        """Whether the bytes begin as a picture of that type and size: this is what is published."""
        try:
            header = read_header(drawn[:HEADER_BYTES], complete=len(drawn) <= HEADER_BYTES)
        except NotAnImage:
            return False
        shape = (self.content_type, self.width, self.height)
        return shape == (header.mime_type, header.width, header.height)


# On the wire


@dataclass(frozen=True, slots=True)
class Answer:
    facts: dict[str, Any]
    data: bytes = b""


SandboxTask = Callable[[bytes, dict[str, Any]], Answer]
SandboxTasks = Mapping[str, SandboxTask]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What comes before an answer."""

    head: int
    data: int
    last: bool

    @property
    def size(self) -> int:
        return self.head + self.data


@dataclass(frozen=True, slots=True)
class Request:
    """Without `data` the bytes could not be read, which says nothing about them."""

    task: str
    parameters: dict[str, Any]
    data: bytes | None


def pack_request(task: str, parameters: dict[str, Any], size: int) -> bytes:
    text = json.dumps({"task": task, "parameters": parameters, "size": size}).encode()
    if len(text) > MOST_HEAD_BYTES:
        raise ValueError("Long parameters belong into the bytes of a request.")
    return _LENGTH.pack(len(text)) + text


def receive_request(connection: socket.socket) -> Request | None:
    """None: whoever asked has hung up."""
    found, attached, _, _ = connection.recvmsg(MOST_HEAD_BYTES, socket.CMSG_LEN(_DESCRIPTOR.size))
    if not found:
        return None
    descriptor = _DESCRIPTOR.unpack(attached[0][2])[0]
    while len(found) < _LENGTH.size or len(found) < _LENGTH.size + _LENGTH.unpack_from(found)[0]:
        if not (more := connection.recv(MOST_HEAD_BYTES)):
            return None
        found += more
    head = json.loads(found[_LENGTH.size :])
    try:
        data = _whole(descriptor, head["size"])
    except OSError:
        data = None
    finally:
        os.close(descriptor)
    return Request(head["task"], head["parameters"], data)


def pack_answer(answer: Answer, *, last: bool = False) -> bytes:
    """Without the data, which may be long and is sent behind it."""
    text = json.dumps(answer.facts).encode()
    return _ENVELOPE.pack(len(text), len(answer.data), last) + text


def unpack_envelope(found: bytes | bytearray) -> Envelope:
    envelope = Envelope(*_ENVELOPE.unpack_from(found))
    if envelope.head > _MOST_FACTS_BYTES:
        raise Garbled
    return envelope


def unpack_answer(envelope: Envelope, found: bytes | bytearray) -> Answer:
    start = _ENVELOPE.size
    try:
        facts = json.loads(found[start : start + envelope.head])
    except (ValueError, RecursionError) as error:
        raise Garbled from error
    if not isinstance(facts, dict) or len(found) != start + envelope.size:
        raise Garbled
    return Answer(facts, bytes(found[start + envelope.head :]))


def _whole(descriptor: int, size: int) -> bytes:
    """From the beginning, wherever others who hold the same file have read to."""
    pieces, at = [], 0
    while at < size and (piece := os.pread(descriptor, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
