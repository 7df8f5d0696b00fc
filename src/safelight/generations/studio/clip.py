"""A scene in motion as WebM: VP9, one thread, nothing in the file but what was drawn."""

import io
from collections.abc import Iterator

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

_OPTIONS = {
    "crf": "33",
    "b": "0",
    "deadline": "good",
    "cpu-used": "5",
    "row-mt": "0",
    "threads": "1",
    "g": "120",
}


def encoded(
    frames: Iterator[NDArray[np.uint8]], width: int, height: int, rate: int, title: str
) -> bytes:
    """The same frames give the same bytes: neither times nor random ids are written."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="webm", options={"fflags": "+bitexact"}) as container:
        container.metadata["title"] = title
        stream = container.add_stream("libvpx-vp9", rate=rate, options=_OPTIONS)
        assert isinstance(stream, VideoStream)  # noqa: S101 - it was asked for
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for pixels in frames:
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()
