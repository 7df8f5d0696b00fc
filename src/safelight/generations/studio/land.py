"""Ranges of hills in the haze, shores, and trees."""

import numpy as np

from safelight.generations.studio.canvas import Canvas, Points
from safelight.generations.studio.colour import Floats, mix, rgb
from safelight.generations.studio.light import Light
from safelight.generations.studio.noise import Random, field, happens, line, ridges, sample, smooth


def ranges(
    canvas: Canvas,
    light: Light,
    rng: Random,
    horizon: float,
    *,
    layers: int,
    height: float,
    snow: bool,
    mist: float,
) -> None:
    """From far to near: each darker, each standing in its own mist."""
    for layer in range(layers):
        near = (layer + 1) / layers
        bumps = (2.2 + 2.0 * near) * canvas.aspect
        crest = ridges(rng, canvas.width, bumps, 7) * (1.1 - 0.35 * near)
        tall = height * (1.0 - 0.55 * near) + 0.02
        edge = np.float32(horizon) - np.float32(tall) * crest - np.float32(0.004)
        mask = canvas.below(edge) * (canvas.y < horizon + 0.02)
        colour = mix(light.haze, light.shadow, 0.18 + 0.62 * near)
        body = _lit(canvas, light, rng, edge, colour, tall)
        if snow:
            body = _snowed(canvas, rng, body, edge, tall, light)
        canvas.lay(mask, body)
        foot = np.exp(-np.clip(horizon - canvas.y, 0, 1) / np.float32(0.03 + 0.05 * mist))
        canvas.lay(mask * foot * np.float32(0.35 + 0.4 * mist), light.haze)


def _lit(
    canvas: Canvas, light: Light, rng: Random, edge: Floats, colour: Floats, tall: float
) -> Floats:
    """Slopes that face the sun are a little brighter, with gullies running down."""
    side = np.float32(1 if light.x < 0 else -1)
    depth = (canvas.y - edge[None, :]) / np.float32(max(tall, 0.02))
    faces = slopes(canvas, rng, depth, side)
    shine = np.clip(faces, 0, 1) * np.exp(-np.clip(depth, 0, 3) * 0.8)
    power = {"day": 0.34, "dawn": 0.30, "dusk": 0.26, "night": 0.05}[light.hour]
    body: Floats = colour * np.float32(0.86) + (shine * np.float32(power))[..., None] * light.glow
    return body.astype(np.float32)


def slopes(canvas: Canvas, rng: Random, depth: Floats, side: np.float32) -> Floats:
    """How much each place faces the light: spurs and gullies that run down both ways."""
    size = 256
    relief = field(rng, size, size, (6, 6), 6, 0.55)
    across = canvas.x * np.float32(size * 1.1) + size
    down = np.clip(depth, -1, 6) * np.float32(26)
    here = sample(relief, *np.broadcast_arrays(down, across + depth * 34))
    there = sample(relief, *np.broadcast_arrays(down + 2, across + depth * 34 - side * 5))
    return 0.42 + 3.6 * (here - there)


def _snowed(
    canvas: Canvas, rng: Random, body: Floats, edge: Floats, tall: float, light: Light
) -> Floats:
    depth = (canvas.y - edge[None, :]) / np.float32(max(tall, 0.02))
    faces = slopes(canvas, rng, depth, np.float32(1))
    high = np.clip((edge.max() - edge) / np.float32(max(tall, 0.02)), 0, 1.1)[None, :]
    cover = smooth(1.15 * high - depth * 1.25 + 0.30 * faces, 0.42, 0.52)
    bright = {"day": 0.86, "dawn": 0.72, "dusk": 0.5, "night": 0.13}[light.hour]
    white = mix(rgb("#f4f6fa"), light.glow, 0.22) * np.float32(bright)
    shaded = white * (0.62 + 0.5 * np.clip(faces, 0, 1))[..., None]
    return (body + cover[..., None] * (shaded - body) * np.float32(0.92)).astype(np.float32)


def headland(canvas: Canvas, rng: Random, x: float, horizon: float, side: int) -> Floats:
    """The edge of a rocky point that rises at `x` and falls towards the middle."""
    across = canvas.x[0]
    rough = line(rng, canvas.width, 26 * canvas.aspect, 5, 0.6)
    fine = line(rng, canvas.width, 90 * canvas.aspect, 3, 0.6)
    along_side = (across - np.float32(x)) * side
    plateau = smooth(along_side, -0.16, 0.02)
    slope = smooth(along_side, -0.42, -0.1) * np.float32(0.07)
    rise = np.float32(0.15) * plateau + slope
    edge = np.float32(horizon + 0.13) - rise - 0.03 * (rough - 0.5) - 0.012 * (fine - 0.5)
    hidden = smooth(along_side, -0.72, -0.34)
    return (edge + (1 - hidden) * np.float32(0.26)).astype(np.float32)


def bank(canvas: Canvas, rng: Random, level: float, rough: float) -> Floats:
    """The edge of the ground in front."""
    soft = line(rng, canvas.width, 2.6 * canvas.aspect, 3)
    fine = line(rng, canvas.width, 60 * canvas.aspect, 3, 0.6)
    return np.float32(level) + np.float32(rough) * (soft - 0.5) + np.float32(0.01) * (fine - 0.5)


def spruces(
    canvas: Canvas, rng: Random, edge: Floats, *, count: int, low: float, high: float
) -> Floats:
    """A stand of spruces along an edge, as one mask."""
    trees: list[Points] = []
    half = canvas.aspect / 2
    for x in np.sort(rng.uniform(-half - 0.05, half + 0.05, count)):
        ground = float(edge[canvas.column(float(x))]) + 0.015
        tall = float(rng.uniform(low, high)) * (1.35 if happens(rng, 0.12) else 1.0)
        trees.append(_spruce(float(x), ground, tall, rng))
    return canvas.shape(*trees)


def _spruce(x: float, ground: float, tall: float, rng: Random) -> Points:
    """A ragged cone: branches left and right, shorter towards the tip."""
    steps, width = max(7, int(tall * 90)), tall * float(rng.uniform(0.16, 0.22))
    left: Points = []
    right: Points = []
    for step in range(steps):
        share = step / steps
        y = ground - tall * (0.06 + 0.94 * share)
        reach = width * (1 - share) ** 0.9
        out = reach * float(rng.uniform(0.75, 1.15))
        left += [(x - out, y + tall * 0.022), (x - out * 0.42, y - tall * 0.012)]
        right += [(x + out, y + tall * 0.022), (x + out * 0.42, y - tall * 0.012)]
    return [
        (x - width * 0.06, ground),
        *left,
        (x, ground - tall),
        *right[::-1],
        (x + width * 0.06, ground),
    ]
