"""The task `inspect`: everything tier 1 wants to know, from one look at the bytes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from PIL import ExifTags, Image

from safelight.headers.probe import NotSupported, detect, read_header
from safelight.sandbox.data_end import end_of
from safelight.sandbox.facts import printable
from safelight.sandbox.fingerprint import looks
from safelight.sandbox.pictures import (
    CONTENT_TYPES,
    ONE_PICTURE,
    TooManyScans,
    check_scans,
    opened,
    upright,
)
from safelight.sandbox.protocol import (
    LONGEST_CAMERA,
    LONGEST_DETAIL,
    Answer,
    Bounds,
    Fault,
    FaultKind,
    Inspection,
    Traces,
)
from safelight.sandbox.tail import tail_of

_BYTES_PER_BAND: Final = {"1": 1, "I": 4, "F": 4, "I;16": 2, "I;16B": 2, "I;16L": 2}


def inspect(data: bytes, parameters: dict[str, Any]) -> Answer:
    looking = _Looking(data, Bounds(**parameters))
    looking.look()
    return Answer(looking.found.to_json())


class _Broken(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


@dataclass
class _Looking:
    """Each step adds to what was found, so that a fault leaves what is known before it."""

    data: bytes
    bounds: Bounds

    def __post_init__(self) -> None:
        self.found = Inspection(len(self.data))

    def look(self) -> None:
        try:
            with _faults(FaultKind.BROKEN if detect(self.data) else FaultKind.NOT_AN_IMAGE):
                image = opened(self.data)
            self._header(image)
            with _faults(FaultKind.BROKEN):
                self._claims()
                self._structure(image)
        except _Broken as broken:
            self._add(fault=broken.fault)

    def _header(self, image: Image.Image) -> None:
        content_type = CONTENT_TYPES[image.format or ""]
        width, height = image.size
        depth = _BYTES_PER_BAND.get(image.mode, 1)
        pixels = width * height
        end = end_of(self.data, content_type)
        self._add(
            content_type=content_type,
            width=width,
            height=height,
            frames=1,
            pixels=pixels,
            unpacked_bytes=pixels * len(image.getbands()) * depth,
            end=end,
            tail=tail_of(self.data, end),
        )

    def _claims(self) -> None:
        """What is coded may be more than what the header shows, and a decoder would unpack it all.
        A header that contradicts what is coded raises."""
        seen, coded = self.found, read_header(self.data, complete=True).pixels
        if coded > seen.pixels > 0:
            unpacked = seen.unpacked_bytes * coded // seen.pixels
            self._add(pixels=coded, unpacked_bytes=unpacked)

    def _structure(self, image: Image.Image) -> None:
        if self.found.content_type == "image/png":
            opened(self.data).verify()  # the checksums, which decoding does not compare
        if image.format not in ONE_PICTURE:
            self._add(frames=getattr(image, "n_frames", 1))
        if self.found.pixels > self.bounds.max_pixels:
            return
        check_scans(image, self.data)
        self._decode(image)

    def _decode(self, image: Image.Image) -> None:
        if image.format not in ONE_PICTURE:
            image.seek(0)
        image.load()
        self._add(traces=_traces(image), decoded=1)
        light, dark = looks(upright(image))
        if light:
            self._add(dhash=light[0], phash=light[1])
        if dark:
            self._add(dark_dhash=dark[0], dark_phash=dark[1])
        frames = self.found.frames
        if frames > self.bounds.max_frames:
            return
        if frames * self.found.pixels > self.bounds.max_total_pixels:
            return
        for number in range(1, frames):
            image.seek(number)
            image.load()
            self._add(decoded=number + 1)

    def _add(self, **facts: Any) -> None:
        self.found = replace(self.found, **facts)


@contextmanager
def _faults(kind: FaultKind) -> Iterator[None]:
    """A decoder raises whatever the bytes lead it into."""
    try:
        yield
    except MemoryError as error:
        raise _Broken(Fault(FaultKind.MEMORY)) from error
    except TooManyScans as error:
        raise _Broken(Fault(FaultKind.CPU, str(error))) from error
    except NotSupported as error:
        raise _Broken(Fault(FaultKind.UNSUPPORTED, error.reason)) from error
    except Exception as error:
        raise _Broken(Fault(kind, printable(error, LONGEST_DETAIL))) from error


def _traces(image: Image.Image) -> Traces:
    xmp = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
    text = xmp if isinstance(xmp, bytes) else str(xmp).encode(errors="replace")
    traces = Traces(xmp=bool(text), gps=b"GPSLatitude" in text)
    with suppress(Exception):  # unreadable metadata says nothing, and is not published either
        exif = image.getexif()
        place = exif.get_ifd(ExifTags.IFD.GPSInfo)
        names = (exif.get(ExifTags.Base.Make), exif.get(ExifTags.Base.Model))
        said = (printable(name, LONGEST_CAMERA).strip() for name in names if name)
        camera = " ".join(said)[:LONGEST_CAMERA]
        traces = replace(
            traces, exif=bool(exif), gps=traces.gps or bool(place), camera=camera or None
        )
    return traces
