"""Two short prints of how a picture looks, which survive scaling, recompression and small edits.

dHash notes where brightness rises from one cell to the next, pHash the lowest frequencies. Either
alone takes some unlike pictures for alike; agreement of both rarely does.
"""

import math
from statistics import median
from typing import Final

from PIL import Image

from safelight.sandbox.pictures import BLACK, WHITE

Prints = tuple[str, str]

_SIDE: Final = 32
_LOW: Final = 8
_LEAST_CONTRAST: Final = 6  # of 255; below, only noise would be compared
_COSINES: Final = [
    [math.cos(math.pi * frequency * (2 * at + 1) / (2 * _SIDE)) for at in range(_SIDE)]
    for frequency in range(_LOW)
]


def looks(upright: Image.Image) -> tuple[Prints | None, Prints | None]:
    """On a white page, and on a black one where that is another picture: what is drawn in
    transparency alone is seen on one of them."""
    gray = upright.convert("L")
    if upright.mode != "RGBA":
        return prints(gray), None
    alpha = upright.getchannel("A")
    light, dark = (prints(_on(level, gray, alpha)) for level in (WHITE, BLACK))
    return light, None if dark == light else dark


def _on(level: int, gray: Image.Image, alpha: Image.Image) -> Image.Image:
    wall = Image.new("L", gray.size, level)
    wall.paste(gray, mask=alpha)
    return wall


def prints(gray: Image.Image) -> Prints | None:
    """The dHash and the pHash, 16 hex digits each; None for a picture without contrast."""
    cells = list(gray.resize((9, 8), Image.Resampling.BOX).tobytes())
    if max(cells) - min(cells) < _LEAST_CONTRAST:
        return None
    small = gray.resize((_SIDE, _SIDE), Image.Resampling.BOX).tobytes()
    return _hex(_rising(cells)), _hex(_frequencies(small))


def _rising(cells: list[int]) -> list[bool]:
    rows = [cells[start : start + 9] for start in range(0, 72, 9)]
    return [row[x + 1] > row[x] for row in rows for x in range(8)]


def _frequencies(pixels: bytes) -> list[bool]:
    """The signs of an 8 by 8 corner of the cosine transform around its median."""
    rows = [pixels[start : start + _SIDE] for start in range(0, _SIDE * _SIDE, _SIDE)]
    across = [[_dot(cosine, row) for cosine in _COSINES] for row in rows]
    columns = list(zip(*across, strict=True))
    values = [_dot(cosine, column) for cosine in _COSINES for column in columns]
    middle = median(values[1:])  # the first is the brightness of the whole
    return [value > middle for value in values]


def _dot(cosine: list[float], values: "bytes | tuple[float, ...]") -> float:
    return sum(weight * value for weight, value in zip(cosine, values, strict=True))


def _hex(bits: list[bool]) -> str:
    return f"{sum(bit << at for at, bit in enumerate(reversed(bits))):016x}"
