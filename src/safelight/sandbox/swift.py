"""Plain pictures made small and WebP in one go, by the libraries of video.

In children only. A pixel is scaled and becomes luma and chroma in the same pass, with the
processor's wide instructions: half of what scaling takes in Pillow. Encoding is the same library's
work in both. Sized for what is usual; everything else has small.py.
"""

from fractions import Fraction
from typing import Final

import numpy as np
from av import VideoFrame
from av.codec import CodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image

_MOST_PIXELS: Final = 4_000_000  # they are copied
_MOST_TIMES: Final = 8  # smaller: beyond that the scaler is no longer exact
# On the average as near to the original as 75 is of what Pillow has scaled, and a little shorter.
_OPTIONS: Final = {"compression_level": "0", "quality": "65"}


def suits(image: Image.Image, size: tuple[int, int]) -> bool:
    times = max(image.width / size[0], image.height / size[1])
    pixels = image.width * image.height
    return image.mode == "RGB" and pixels <= _MOST_PIXELS and times <= _MOST_TIMES


def webp(image: Image.Image, size: tuple[int, int]) -> bytes:
    """Of RGB. Without threads of its own, which a child could not start."""
    plain = np.frombuffer(image.tobytes("raw", "RGBX"), np.uint8)
    frame = VideoFrame.from_numpy_buffer(plain.reshape(image.height, image.width, 4), "rgba")
    small = VideoReformatter().reformat(
        frame, *size, "yuv420p", interpolation=Interpolation.AREA, threads=1
    )
    return b"".join(map(bytes, _encoder(size).encode(small)))


def _encoder(size: tuple[int, int]) -> VideoCodecContext:
    encoder = CodecContext.create("libwebp", "w")
    assert isinstance(encoder, VideoCodecContext)  # noqa: S101 - it was asked for
    encoder.width, encoder.height = size
    encoder.pix_fmt, encoder.time_base = "yuv420p", Fraction(1)
    encoder.thread_count = 1
    encoder.options = _OPTIONS
    return encoder
