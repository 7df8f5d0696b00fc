"""The colour that stands for a picture while it is on its way. In children only."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SHIFT: Final = 5  # 8 levels of each channel
_LEVELS: Final = 1 << (8 - _SHIFT)
_GREY_COUNTS: Final = 40.0  # beside a saturation of up to 255: what is vivid is what people see


def dominant(pixels: NDArray[Any]) -> str:
    """Of RGB rows of bytes: the mean of those most alike, the vivid ones counting for more."""
    flat = pixels.reshape(-1, 3)
    steps = flat >> _SHIFT
    bins = steps @ np.array((_LEVELS * _LEVELS, _LEVELS, 1), np.int64)
    vivid = flat.max(1).astype(np.float64) - flat.min(1) + _GREY_COUNTS
    most = np.bincount(bins, vivid).argmax()
    red, green, blue = flat[bins == most].mean(0).round().astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"
