"""Colours in linear light, mixed in OKLab so that blends stay clean on the way."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 throughout; numpy's own types lose track of it

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_FROM_LAB, _FROM_LMS = np.linalg.inv(_TO_LAB), np.linalg.inv(_TO_LMS)
_STEPS = 1024
_KNEE_SRGB, _KNEE_LINEAR = 0.04045, 0.0031308


def rgb(code: str) -> Floats:
    """`#rrggbb` in linear light."""
    values = np.array([int(code[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(values <= _KNEE_SRGB, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return linear.astype(np.float32)


def mix(first: Floats, second: Floats, share: float) -> Floats:
    lab = _lab(first) * (1 - share) + _lab(second) * share
    return _linear(lab)


def ramp(*stops: tuple[float, Floats]) -> Floats:
    """A table of colours from 0 to 1 through stops given in rising order."""
    places = np.linspace(0, 1, _STEPS)
    labs = np.array([_lab(colour) for _, colour in stops])
    at = [place for place, _ in stops]
    return _linear(np.stack([np.interp(places, at, labs[:, axis]) for axis in range(3)], axis=1))


def along(table: Floats, place: Floats) -> Floats:
    """The table's colours at each place."""
    index = np.clip(place * (_STEPS - 1), 0, _STEPS - 1).astype(np.int32)
    colours: Floats = table[index]
    return colours


def to_bytes(image: Floats) -> NDArray[np.uint8]:
    """A soft shoulder for what is brighter than white, then sRGB."""
    over = np.maximum(image - 0.55, 0)
    shown = np.minimum(np.maximum(image, 0), 0.55) + 0.45 * (1 - np.exp(-over / 0.45))
    curved = np.where(shown <= _KNEE_LINEAR, shown * 12.92, 1.055 * shown ** (1 / 2.4) - 0.055)
    shades: NDArray[np.uint8] = (np.clip(curved, 0, 1) * 255 + 0.5).astype(np.uint8)
    return shades


def _lab(colour: Floats) -> NDArray[np.float64]:
    return np.asarray(_TO_LAB @ np.cbrt(_TO_LMS @ colour.astype(np.float64)))


def _linear(lab: NDArray[np.float64]) -> Floats:
    lms = (lab @ _FROM_LAB.T) ** 3
    return np.maximum(lms @ _FROM_LMS.T, 0).astype(np.float32)
