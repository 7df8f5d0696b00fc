"""Cities at night: towers, lit windows, the moon, reflections."""

from dataclasses import dataclass

import numpy as np

from safelight.generations.studio import sky
from safelight.generations.studio.canvas import Canvas, Layer, Points
from safelight.generations.studio.colour import mix, ramp, rgb
from safelight.generations.studio.light import Light, light_of
from safelight.generations.studio.noise import Random, field, happens, smooth
from safelight.generations.studio.prompt import Reading
from safelight.generations.studio.scene import Stage
from safelight.generations.studio.water import Water

_SKIES = (
    ("#070a1c", "#141639", "#3a2158", "#8a3a66", "#e0795f"),
    ("#050b1f", "#0c1f45", "#1d3f6e", "#47648c", "#a98a8f"),
    ("#0a0618", "#22103f", "#54206a", "#a33a77", "#f09068"),
)
_BUSY_FLOORS = 0.9
_WINDOWS = ("#ffca7a", "#ffe2ac", "#9fc9ff")


@dataclass(frozen=True, slots=True)
class Tower:
    left: float
    right: float
    top: float
    style: int


class Nocturne:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._horizon = 0.70 + 0.03 * stage.chance("horizon")
        self._light = self._lit()
        canvas = stage.canvas()
        self._clouds = sky.Clouds(canvas, stage.rng("clouds"), self._horizon, 0.42)
        rough = 0.34 if stage.reading.has("rain") else 0.2
        self._water = Water(canvas, stage.rng("water"), self._horizon, rough)
        self._town = self._skyline(canvas)

    def paint(self, t: float) -> Canvas:
        stage, light, canvas = self._stage, self._light, self._stage.canvas()
        sky.wash(canvas, light, self._horizon)
        sky.stars(canvas, stage.rng("stars"), self._horizon, 0.3, t)
        sky.moon(canvas, light, stage.rng("moon"), 0.055)
        self._clouds.paint(canvas, light, t)
        canvas.put(self._town)
        self._beacons(canvas, t)
        self._water.paint(canvas, light, t, path=0.45)
        if stage.reading.has("rain"):
            sky.rain(canvas, stage.rng("rain"), t)
        return canvas

    def _lit(self) -> Light:
        stage = self._stage
        reading = Reading("night", stage.reading.things, ())
        light = light_of(reading, stage.rng("light"), self._horizon, default="night")
        codes = _SKIES[int(stage.rng("sky").integers(len(_SKIES)))]
        stops = [rgb(code) for code in codes]
        for at, code in enumerate(stage.reading.colours[:3]):
            place = (3, 4, 2)[at]
            stops[place] = mix(stops[place], rgb(code), 0.85) * np.float32(0.8)
        table = ramp(*zip((0.0, 0.34, 0.62, 0.86, 1.0), stops, strict=True))
        glow = mix(stops[4], stops[3], 0.4)
        haze = mix(stops[3], stops[2], 0.45) * np.float32(0.7)
        return Light("night", table, glow, light.sun, haze, rgb("#07080f"), light.x, light.y)

    def _skyline(self, canvas: Canvas) -> Layer:
        layer, light = canvas.layer(), self._light
        for depth, (low, high, wide) in enumerate(
            ((0.10, 0.30, 0.035), (0.14, 0.44, 0.05), (0.05, 0.27, 0.085))
        ):
            rng = self._stage.rng(f"towers {depth}")
            towers = _towers(canvas, rng, self._horizon, low, high, wide)
            mask = layer.shape(*(_outline(tower, self._horizon) for tower in towers))
            near = depth / 2
            wall = mix(light.haze, light.shadow, 0.35 + 0.6 * near)
            fade = smooth(canvas.y, self._horizon - high, self._horizon)
            foggy = wall + (fade * (1 - near) * 0.5)[..., None] * (light.haze - wall)
            layer.lay(mask, np.broadcast_to(foggy, layer.image.shape).astype(np.float32))
            self._windows(layer, towers, rng, near)
        street = np.exp(-(((canvas.y - self._horizon) / 0.05) ** 2)) * (canvas.y < self._horizon)
        hum = field(self._stage.rng("street"), canvas.height, canvas.width, (4, 30), 3)
        layer.light(street * hum * np.float32(0.28), rgb("#ffae5c"))
        layer.lay(
            np.broadcast_to(canvas.y > self._horizon, layer.cover.shape).astype(np.float32),
            light.shadow,
        )
        return layer

    def _windows(self, layer: Layer, towers: list[Tower], rng: Random, near: float) -> None:
        panes: dict[int, list[Points]] = {0: [], 1: [], 2: []}
        size = 0.0042 + 0.0026 * near
        for tower in towers:
            busy = float(rng.uniform(0.12, 0.55))
            hue = int(rng.choice(3, p=[0.5, 0.32, 0.18]))
            for box in _panes(tower, self._horizon, size, rng, busy):
                panes[hue if happens(rng, 0.8) else int(rng.integers(3))].append(box)
        for hue, boxes in panes.items():
            if boxes:
                power = np.float32(0.42 + 0.75 * near)
                layer.lay(layer.shape(*boxes) * np.float32(0.92), rgb(_WINDOWS[hue]) * power)

    def _beacons(self, canvas: Canvas, t: float) -> None:
        """Red lamps on the tallest roofs, blinking in turn."""
        rng = self._stage.rng("towers 1")
        towers = _towers(canvas, rng, self._horizon, 0.14, 0.44, 0.05)
        tallest = sorted(towers, key=lambda tower: tower.top)[:4]
        for at, tower in enumerate(tallest):
            shine = 0.45 + 0.55 * np.sin(2.2 * t + 1.7 * at) ** 2
            x = (tower.left + tower.right) / 2
            glow = canvas.glow(x, tower.top - 0.045, 0.007) * np.float32(shine * 1.5)
            canvas.light(glow, rgb("#ff4038"))


def _towers(
    canvas: Canvas, rng: Random, horizon: float, low: float, high: float, wide: float
) -> list[Tower]:
    """Side by side across the picture, taller towards a centre of their own."""
    found, x = [], -canvas.aspect / 2 - wide
    centre = float(rng.uniform(-0.22, 0.22)) * canvas.aspect
    while x < canvas.aspect / 2:
        width = float(rng.uniform(0.5, 1.3)) * wide
        pull = np.exp(-(((x - centre) / (0.36 * canvas.aspect)) ** 2))
        tall = low + (high - low) * float(rng.random()) ** 1.4 * (0.35 + 0.65 * pull)
        found.append(Tower(x, x + width, horizon - tall, int(rng.integers(4))))
        x += width + float(rng.uniform(-0.15, 0.3)) * wide
    return found


def _outline(tower: Tower, horizon: float) -> Points:
    left, right, top = tower.left, tower.right, tower.top
    middle, width = (left + right) / 2, right - left
    roofs: tuple[Points, ...] = (
        [(left, top), (right, top)],
        [(left, top), (left + width * 0.2, top), (left + width * 0.2, top - width * 0.3),
         (right - width * 0.2, top - width * 0.3), (right - width * 0.2, top), (right, top)],
        [(left, top), (middle - width * 0.03, top - width * 0.35),
         (middle - width * 0.012, top - width * 1.0), (middle + width * 0.012, top - width * 1.0),
         (middle + width * 0.03, top - width * 0.35), (right, top)],
        [(left, top), (right, top - width * 0.3)],
    )  # fmt: skip
    return [(left, horizon + 0.01), *roofs[tower.style], (right, horizon + 0.01)]


def _panes(tower: Tower, horizon: float, size: float, rng: Random, busy: float) -> list[Points]:
    columns = np.arange(tower.left + size, tower.right - size, size * 1.75)
    rows = np.arange(tower.top + size * 1.6, horizon - size, size * 2.1)
    lit = rng.random((len(rows), len(columns))) < busy
    lit &= (rng.random(len(rows)) < _BUSY_FLOORS)[:, None]
    return [
        [(x, y), (x + size, y), (x + size, y + size * 1.1), (x, y + size * 1.1)]
        for row, y in enumerate(rows.tolist())
        for column, x in enumerate(columns.tolist())
        if lit[row, column]
    ]
