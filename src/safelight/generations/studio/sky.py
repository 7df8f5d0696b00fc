"""Skies: the gradient, sun or moon, stars, clouds, northern lights."""

import numpy as np

from safelight.generations.studio.canvas import Canvas
from safelight.generations.studio.colour import Floats, along, mix, ramp, rgb
from safelight.generations.studio.light import Light, shade
from safelight.generations.studio.noise import Random, drifted, field, sample, smooth


def wash(canvas: Canvas, light: Light, horizon: float) -> None:
    """The gradient, warmer towards the sun."""
    share = np.clip(canvas.y / np.float32(horizon), 0, 1) ** np.float32(1.12)
    canvas.image[:] = along(light.sky, np.broadcast_to(share, (canvas.height, canvas.width)))
    low = light.y > horizon - 0.15
    wide = canvas.glow(light.x, light.y, 0.55, 1.9 if low else 1.2)
    middle = light.sky[len(light.sky) // 2]
    warm = mix(light.glow, middle, 0.6) if light.is_dark else light.glow
    canvas.light(wide * np.float32(0.30 if not light.is_dark else 0.10), warm)
    near = canvas.glow(light.x, light.y, 0.2, 1.5 if low else 1.0)
    canvas.light(near * np.float32(0.45 if not light.is_dark else 0.12), warm)


def sun(canvas: Canvas, light: Light, size: float = 0.042) -> None:
    canvas.light(canvas.glow(light.x, light.y, size * 2.2) * np.float32(0.9), light.glow)
    canvas.lay(canvas.disc(light.x, light.y, size), light.sun * np.float32(1.9))


def moon(canvas: Canvas, light: Light, rng: Random, size: float = 0.04) -> None:
    canvas.light(canvas.glow(light.x, light.y, size * 3.4) * np.float32(0.30), light.sun)
    face = field(rng, 256, 256, (4, 4), 4)
    x = (canvas.x - light.x) / size * 90 + 128
    y = (canvas.y - light.y) / size * 90 + 128
    seas = sample(face, *np.broadcast_arrays(y, x))
    colour = light.sun * (1.15 - 0.45 * smooth(seas, 0.45, 0.8))[..., None]
    canvas.lay(canvas.disc(light.x, light.y, size), colour.astype(np.float32))


def stars(canvas: Canvas, rng: Random, horizon: float, amount: float, t: float) -> None:
    """Fewer towards the horizon; the larger ones twinkle."""
    count = int(900 * amount * max(canvas.aspect, 0.5))
    x = rng.uniform(-canvas.aspect / 2, canvas.aspect / 2, count)
    y = horizon * rng.random(count) ** 1.4
    power = rng.random(count) ** 6
    phase = rng.uniform(0, 2 * np.pi, count)
    warm = rng.random(count)[:, None] * np.array([0.25, 0.05, -0.25])
    shine = (0.18 + 1.5 * power) * (1 + 0.35 * np.sin(phase + 3 * t)) * (1 - y / horizon * 0.75)
    rows = np.clip((y * canvas.height).astype(int), 0, canvas.height - 1)
    columns = np.clip(((x + canvas.aspect / 2) * canvas.height).astype(int), 0, canvas.width - 1)
    colours = (shine[:, None] * (np.array([0.9, 0.95, 1.0]) + warm)).astype(np.float32)
    layer = np.zeros_like(canvas.image)
    np.add.at(layer, (rows, columns), colours)
    spread = max(1, round(canvas.height / 900))
    for move in range(1, spread + 1):
        layer += 0.35 * (np.roll(layer, move, 0) + np.roll(layer, move, 1))
    canvas.image += layer


class Clouds:
    """A sheet of cloud seen from below, lit from the sun's side."""

    def __init__(self, canvas: Canvas, rng: Random, horizon: float, cover: float) -> None:
        size = 512
        self._noise = field(rng, size, size, (5, 4), 7, 0.53)
        self._horizon, self._cover = horizon, cover
        away = np.maximum(np.float32(horizon) - canvas.y, 0) + np.float32(0.05)
        depth = np.float32(0.23) / away
        self._across = canvas.x * depth * size * np.float32(0.62) + size / 2
        self._down = np.broadcast_to(depth * size * np.float32(0.36), self._across.shape)
        self._fade = smooth(away, 0.055, 0.2)

    def paint(self, canvas: Canvas, light: Light, t: float) -> None:
        across = self._across + np.float32(9 * t)
        thick = sample(self._noise, self._down, across)
        towards = np.float32(9 if light.x > 0 else -9)
        beyond = sample(self._noise, self._down + 5, across + towards)
        cover = np.float32(1 - self._cover)
        mask = smooth(thick, float(cover * 0.72), float(cover * 0.72 + 0.42)) * self._fade
        lit = np.clip(0.5 + 2.6 * (thick - beyond), 0, 1)
        near = canvas.glow(light.x, light.y, 0.75, 1.7)
        dark = mix(light.shadow, light.haze, 0.42 if not light.is_dark else 0.2)
        bright = mix(light.glow, light.sun, 0.3)
        strength = np.float32(0.25 if light.is_dark else 1.15)
        share = (lit * (0.35 + 0.65 * near))[..., None]
        colour = dark * (1 - share) + bright * strength * share
        edge = np.exp(-((mask - 0.35) ** 2) / 0.02) * near * np.float32(0.35)
        canvas.lay(mask * np.float32(0.86), colour.astype(np.float32))
        if not light.is_dark:
            canvas.light(edge * self._fade, light.glow)


class Aurora:
    """Curtains: bands that wander across the sky, bright below and fading upwards in rays."""

    def __init__(self, canvas: Canvas, rng: Random, horizon: float, colours: list[Floats]) -> None:
        self._rng, self._horizon = rng, horizon
        self._paths = [field(rng, 64, 512, (2, 3), 3) for _ in range(3)]
        self._rays = field(rng, 64, 1024, (3, 60), 4, 0.6)
        self._bases = [horizon * b + float(rng.uniform(-0.04, 0.04)) for b in (0.5, 0.7, 0.84)]
        self._reach = [float(rng.uniform(0.26, 0.4)) for _ in range(3)]
        self._strength = (0.85, 1.25, 0.6)
        self._tables = [_curtain(colours, k) for k in range(3)]
        self._columns = np.linspace(0, 1, canvas.width, dtype=np.float32)

    def paint(self, canvas: Canvas, t: float) -> None:
        for at, base in enumerate(self._bases):
            strength = np.float32(self._strength[at])
            path = self._row(self._paths[at], 512, 0.06 * t, 7 + at * 17)
            bend = self._row(self._paths[at], 512, -0.04 * t, 40 + at * 5)
            edge = base + 0.16 * (path - 0.5) + 0.045 * np.sin(5 * bend)
            rays = self._row(self._rays, 1024, 0.02 * t + 0.1 * at, 5 + at * 20 + 3 * t)
            height = np.float32(self._reach[at]) * (0.55 + 0.75 * rays)
            above = (edge[None, :] - canvas.y) / height[None, :]
            foot = smooth(above, -0.22, 0.12)
            fall = np.exp(-np.clip(above, 0, 4) * 3.1) * foot
            thick = 0.35 + 0.65 * smooth(bend, 0.25, 0.6)
            bright = fall * ((0.16 + 1.05 * rays**2) * thick)[None, :] * strength
            colour = along(self._tables[at], np.clip(above, 0, 1))
            canvas.image += bright[..., None] * colour

    def _row(self, values: Floats, size: int, shift: float, row: float) -> Floats:
        across = (self._columns + np.float32(shift)) * size
        return sample(values, np.full_like(across, row), across)


def _curtain(colours: list[Floats], at: int) -> Floats:
    low = colours[at % len(colours)]
    high = colours[(at + 1) % len(colours)]
    pale = mix(low, rgb("#ffffff"), 0.25)
    return ramp((0.0, pale), (0.18, low), (0.55, mix(low, high, 0.6)), (1.0, shade(high, 0.8)))


def rain(canvas: Canvas, rng: Random, t: float) -> None:
    """Thin slanting strokes."""
    streaks = field(rng, canvas.height, canvas.width, (max(canvas.height // 40, 4), 220), 1)
    moved = drifted(streaks, 1.4 * t * canvas.height, -0.12 * t * canvas.height)
    canvas.light(smooth(moved, 0.86, 1.0) * np.float32(0.05), rgb("#cfd8e6"))
