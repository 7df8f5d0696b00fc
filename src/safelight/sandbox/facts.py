"""What a child tells about an image. Plain values: nothing here opens anything."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


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
