"""Flowers and grass, each a few soft shapes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from safelight.generations.studio.canvas import Canvas, Points
from safelight.generations.studio.colour import Floats, mix
from safelight.generations.studio.noise import Random, happens


@dataclass(frozen=True, slots=True)
class FlowerPart:
    """Shapes of one colour; a flower is a few of them, from back to front."""

    shapes: list[Points]
    tone: float  # 0 is the flower's colour in shadow, 1 in full light
    heart: bool = False  # the middle, which has a colour of its own


Flower = Callable[[float, float, float, Random], list[FlowerPart]]


def petal(x: float, y: float, angle: float, length: float, width: float) -> Points:
    """A drop from the middle outwards."""
    along = np.array([0.0, 0.25, 0.55, 0.82, 1.0, 0.82, 0.55, 0.25])
    across = np.array([0.0, 0.34, 0.5, 0.38, 0.0, -0.38, -0.5, -0.34])
    dx, dy = np.cos(angle), np.sin(angle)
    places_x = x + length * along * dx - width * across * dy
    places_y = y + length * along * dy + width * across * dx
    return list(zip(places_x.tolist(), places_y.tolist(), strict=True))


def fan(x: float, y: float, angle: float, reach: float, spread: float, rng: Random) -> Points:
    """A broad petal with a crumpled rim, seen a little from the side."""
    angles = angle + np.linspace(-spread, spread, 13)
    swell = np.cos(np.linspace(-1.15, 1.15, 13)) ** 0.35
    rim = reach * swell * rng.uniform(0.92, 1.06, 13)
    places_x, places_y = x + rim * np.cos(angles), y + 0.78 * rim * np.sin(angles)
    return [(x, y), *zip(places_x.tolist(), places_y.tolist(), strict=True)]


def poppy(x: float, y: float, size: float, rng: Random) -> list[FlowerPart]:
    """Two petals behind, two in front, folds between them, a small dark middle."""
    lean = float(rng.normal(0, 0.25))
    up, down = -np.pi / 2 + lean, np.pi / 2 + lean
    back = [fan(x, y, up + side, size, 1.15, rng) for side in (-0.55, 0.55)]
    sides = [fan(x, y, up + side, size * 0.97, 0.8, rng) for side in (-1.5, 1.5)]
    front = [fan(x, y - size * 0.1, down + side, size * 0.82, 0.95, rng) for side in (-0.5, 0.5)]
    fold = [petal(x, y, down + side, size * 0.5, size * 0.2) for side in (-0.75, 0.0, 0.8)]
    heart = [_ring(x, y - size * 0.06, size * 0.11)]
    return [
        FlowerPart(back, 0.38),
        FlowerPart(sides, 0.6),
        FlowerPart(front, 0.95),
        FlowerPart(fold, 0.55),
        FlowerPart(heart, 0.0, heart=True),
    ]


def daisy(x: float, y: float, size: float, rng: Random) -> list[FlowerPart]:
    turn, count = float(rng.uniform(0, 1)), int(rng.integers(13, 19))
    step = 2 * np.pi / count
    back = [petal(x, y, turn + k * step, size, size * 0.26) for k in range(count)]
    front = [petal(x, y, turn + (k + 0.5) * step, size * 0.92, size * 0.22) for k in range(count)]
    return [
        FlowerPart(back, 0.45),
        FlowerPart(front, 1.0),
        FlowerPart([_ring(x, y, size * 0.27)], 1, heart=True),
    ]


def tulip(x: float, y: float, size: float, rng: Random) -> list[FlowerPart]:
    lean = float(rng.uniform(-0.12, 0.12))
    up = -np.pi / 2 + lean
    base = y + size * 0.75
    back = [petal(x, base, up + side, size * 1.75, size * 0.95) for side in (-0.34, 0.34)]
    front = [petal(x, base, up, size * 1.6, size * 1.05)]
    rim = [
        petal(x + side * size, base, up + side * 0.5, size * 1.5, size * 0.42)
        for side in (-0.28, 0.28)
    ]
    return [FlowerPart(back, 0.3), FlowerPart(front, 0.75), FlowerPart(rim, 1.0)]


def spike(x: float, y: float, size: float, rng: Random) -> list[FlowerPart]:
    """Lavender: whorls up a stem."""
    low: list[Points] = []
    high: list[Points] = []
    for k in range(11):
        level = y + size * (1.4 - 0.3 * k)
        reach = size * 0.34 * (1 - k / 13)
        for angle in rng.uniform(-np.pi, 0, 5):
            out = petal(x, level, float(angle), reach, reach * 0.62)
            (low if happens(rng, 0.5) else high).append(out)
    return [FlowerPart(low, 0.3), FlowerPart(high, 0.95)]


def cosmos(x: float, y: float, size: float, rng: Random) -> list[FlowerPart]:
    turn = float(rng.uniform(0, 1))
    step = 2 * np.pi / 8
    back = [petal(x, y, turn + k * step, size, size * 0.62) for k in range(8)]
    shine = [petal(x, y, turn + k * step, size * 0.95, size * 0.3) for k in range(8)]
    return [
        FlowerPart(back, 0.5),
        FlowerPart(shine, 0.9),
        FlowerPart([_ring(x, y, size * 0.2)], 0.6, heart=True),
    ]


FLOWERS: dict[str, tuple[Flower, tuple[str, ...], str]] = {
    "poppies": (poppy, ("#d92b1d", "#e8492b", "#c21f24"), "#231314"),
    "daisies": (daisy, ("#f6f4ee", "#f2efe6"), "#f2b62b"),
    "tulips": (tulip, ("#e84a5f", "#f2a13a", "#d83a8c", "#f4d35e"), "#f2d06b"),
    "lavender": (spike, ("#7f62c9", "#9277d6", "#6a52b3"), "#7f62c9"),
    "cosmos": (cosmos, ("#ec7fb0", "#f4b2cf", "#c94f9a", "#f7e3ec"), "#f2c230"),
}


def toned(colour: Floats, tone: float, light: Floats, power: float) -> Floats:
    dark = colour * np.float32(0.28)
    lit = mix(colour, light, 0.18) * np.float32(power)
    return (dark + np.float32(tone) * (lit - dark)).astype(np.float32)


def stem(x: float, top: float, foot: float, bend: float, width: float) -> Points:
    """A thin curve from the ground to the flower."""
    share = np.linspace(0, 1, 9)
    middle = x + bend * (1 - share) ** 2
    height = top + (foot - top) * (1 - share)
    left = list(zip((middle - width).tolist(), height.tolist(), strict=True))
    right = list(zip((middle + width).tolist(), height.tolist(), strict=True))
    return left + right[::-1]


def blades(canvas: Canvas, rng: Random, foot: float, tall: float, count: int) -> list[Points]:
    found: list[Points] = []
    half = canvas.aspect / 2 + 0.05
    for x in rng.uniform(-half, half, count).tolist():
        high = tall * float(rng.uniform(0.45, 1.0))
        lean = float(rng.normal(0, 0.28)) * high
        wide = 0.0016 + tall * 0.011
        tip = (x + lean, foot - high)
        waist = (x + lean * 0.35, foot - high * 0.55)
        found.append([(x - wide, foot), (waist[0] - wide * 0.7, waist[1]), tip,
                      (waist[0] + wide * 0.7, waist[1]), (x + wide, foot)])  # fmt: skip
    return found


def _ring(x: float, y: float, size: float) -> Points:
    angles = np.linspace(0, 2 * np.pi, 15)[:-1]
    return list(
        zip((x + size * np.cos(angles)).tolist(), (y + size * np.sin(angles)).tolist(), strict=True)
    )
