"""Photographs to work on: real ones from scikit-image, at two megapixels, with some grain."""

import io
from functools import cache
from typing import Any

import numpy as np
from PIL import Image


@cache
def two_megapixels() -> bytes:
    """With a number in a comment, so that a load generator can make each another file (load.py)."""
    from skimage import data as photographs

    data: Any = photographs  # without types of its own
    grain = np.random.default_rng(7).normal(0, 4, (1414, 1414, 1))
    photo = np.asarray(Image.fromarray(data.astronaut()).resize((1414, 1414)), dtype=np.float64)
    buffer = io.BytesIO()
    Image.fromarray(np.clip(photo + grain, 0, 255).astype(np.uint8)).save(
        buffer, "JPEG", quality=88, comment=b"picture 00000"
    )
    return buffer.getvalue()
