"""Smooth randomness: fields that repeat without a seam, so that they can drift for ever."""

import numpy as np
from numpy.typing import NDArray

from safelight.generations.studio.colour import Floats

Random = np.random.Generator


def field(
    rng: Random, height: int, width: int, cells: tuple[int, int], octaves: int, gain: float = 0.5
) -> Floats:
    """Fractal noise between 0 and 1; `cells` is how many bumps fit down and across."""
    total = np.zeros((height, width), np.float32)
    weight, reach = 1.0, 0.0
    down, across = cells
    for _ in range(octaves):
        total += np.float32(weight) * _octave(rng, height, width, down, across)
        reach += weight
        weight, down, across = weight * gain, down * 2, across * 2
    return _spread(total / np.float32(reach))


def line(rng: Random, width: int, bumps: float, octaves: int, gain: float = 0.5) -> Floats:
    """The same along one axis, not repeating: a skyline, a shore."""
    total, weight, reach = np.zeros(width, np.float32), 1.0, 0.0
    for _ in range(octaves):
        knots = rng.random(int(np.ceil(bumps)) + 2, np.float32)
        place = np.linspace(0, bumps, width, dtype=np.float32)
        index = np.minimum(place.astype(np.int32), len(knots) - 2)
        share = _eased(place - index)
        total += np.float32(weight) * (knots[index] * (1 - share) + knots[index + 1] * share)
        reach += weight
        weight, bumps = weight * gain, bumps * 2
    return total / np.float32(reach)


def ridges(rng: Random, width: int, bumps: float, octaves: int) -> Floats:
    """Sharp crests and round valleys."""
    crests: Floats = (1 - np.abs(2 * line(rng, width, bumps, octaves, 0.48) - 1)) ** 2
    return crests


def happens(rng: Random, share: float) -> bool:
    return float(rng.random()) < share


def drifted(values: Floats, down: float, across: float) -> Floats:
    """The field moved by so many pixels, fractions included."""
    moved = _moved(values, down, 0)
    return _moved(moved, across, 1)


def sample(values: Floats, down: Floats, across: Floats) -> Floats:
    """The field at places in pixels, repeating beyond its edges."""
    height, width = values.shape
    top, left = np.floor(down), np.floor(across)
    y, x = (down - top).astype(np.float32), (across - left).astype(np.float32)
    y0, x0 = top.astype(np.int32) % height, left.astype(np.int32) % width
    y1, x1 = (y0 + 1) % height, (x0 + 1) % width
    upper = values[y0, x0] * (1 - x) + values[y0, x1] * x
    lower = values[y1, x0] * (1 - x) + values[y1, x1] * x
    found: Floats = upper * (1 - y) + lower * y
    return found


def smooth(values: Floats, low: float, high: float) -> Floats:
    """0 below `low`, 1 above `high`, eased in between."""
    return _eased(np.clip((values - low) / (high - low), 0, 1).astype(np.float32))


def _octave(rng: Random, height: int, width: int, down: int, across: int) -> Floats:
    lattice = rng.random((down, across), np.float32)
    rows, row_next, row_share = _places(height, down)
    columns, column_next, column_share = _places(width, across)
    bands = lattice[rows] * (1 - row_share[:, None]) + lattice[row_next] * row_share[:, None]
    found: Floats = bands[:, columns] * (1 - column_share) + bands[:, column_next] * column_share
    return found


def _places(length: int, cells: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
    place = np.arange(length, dtype=np.float32) * np.float32(cells / length)
    index = place.astype(np.int32)
    return index % cells, (index + 1) % cells, _eased(place - index)


def _eased(share: Floats) -> Floats:
    eased: Floats = share * share * (3 - 2 * share)
    return eased


def _spread(values: Floats) -> Floats:
    """Uses the whole range: sums of octaves crowd around the middle."""
    low, high = np.percentile(values, [1, 99])
    spread: Floats = np.clip((values - low) / max(high - low, 1e-6), 0, 1).astype(np.float32)
    return spread


def _moved(values: Floats, by: float, axis: int) -> Floats:
    whole = int(np.floor(by))
    share = np.float32(by - whole)
    near = np.roll(values, whole, axis)
    return near if share == 0 else near * (1 - share) + np.roll(values, whole + 1, axis) * share
