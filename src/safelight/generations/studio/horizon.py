"""Coasts, mountains and lighthouses under a wide sky."""

import numpy as np

from safelight.generations.studio import land, sky
from safelight.generations.studio.built import Lighthouse, birds, boat
from safelight.generations.studio.canvas import Canvas, Layer
from safelight.generations.studio.colour import Floats, mix, rgb
from safelight.generations.studio.light import light_of
from safelight.generations.studio.noise import field, smooth
from safelight.generations.studio.scene import Stage
from safelight.generations.studio.water import Water

_BANDS = ("#b8352c", "#25415f", "#b5452f", "#2c2f36")


class Horizon:
    def __init__(self, stage: Stage) -> None:
        self._stage, reading = stage, stage.reading
        self._horizon = 0.60 + 0.05 * stage.chance("horizon")
        rng = stage.rng("light")
        default = ("dusk", "dusk", "dawn", "day")[int(rng.integers(4))]
        self._light = light_of(reading, rng, self._horizon, default=default)
        canvas = stage.canvas()
        cover = 0.85 if reading.has("rain") else 0.62 if reading.has("clouds") else 0.46
        self._clouds = sky.Clouds(canvas, stage.rng("clouds"), self._horizon, cover)
        rough = 0.16 if reading.has("calm", "lake") else 0.5
        self._water = Water(canvas, stage.rng("water"), self._horizon, rough)
        self._tower = self._lighthouse()
        self._far, self._near = self._behind(canvas), self._front(canvas)

    def paint(self, t: float) -> Canvas:
        stage, light, canvas = self._stage, self._light, self._stage.canvas()
        sky.wash(canvas, light, self._horizon)
        if light.hour in {"night", "dusk"}:
            amount = 1.0 if light.is_dark else 0.22
            sky.stars(canvas, stage.rng("stars"), self._horizon, amount, t)
        self._disc(canvas)
        self._clouds.paint(canvas, light, t)
        canvas.put(self._far)
        if stage.reading.has("birds") or stage.happens("birds", 0.3):
            birds(canvas, light, stage.rng("flock"), t)
        self._water.paint(canvas, light, t)
        self._boats(canvas, t)
        canvas.put(self._near)
        if self._tower:
            self._tower.shine(canvas, light, t)
        if stage.reading.has("mist"):
            self._mist(canvas, t)
        if stage.reading.has("rain"):
            sky.rain(canvas, stage.rng("rain"), t)
        return canvas

    def _disc(self, canvas: Canvas) -> None:
        light = self._light
        if light.is_dark:
            sky.moon(canvas, light, self._stage.rng("moon"))
        elif light.hour != "day" or self._stage.reading.has("sun"):
            sky.sun(canvas, light, 0.036 if light.hour == "day" else 0.045)

    def _lighthouse(self) -> Lighthouse | None:
        stage, reading = self._stage, self._stage.reading
        named = reading.has("lighthouse")
        if not named and (reading.things or stage.happens("tower", 0.3)):
            return None
        side = -1 if self._light.x > 0 else 1
        x = side * (0.17 + 0.07 * stage.chance("place")) * min(canvas_width(stage), 1.4)
        band = rgb(_BANDS[int(stage.rng("band").integers(len(_BANDS)))])
        return Lighthouse(x, self._horizon - 0.005, 0.34, band)

    def _behind(self, canvas: Canvas) -> Layer:
        stage, reading = self._stage, self._stage.reading
        layer = canvas.layer()
        alpine = reading.has("mountains")
        if reading.has("sea") and not alpine and stage.happens("islands", 0.4):
            return layer
        tall = 0.30 if alpine else 0.09
        land.ranges(
            layer,
            self._light,
            stage.rng("ranges"),
            self._horizon,
            layers=4 if alpine else 2,
            height=tall,
            snow=reading.has("snow") or (alpine and stage.happens("snow", 0.6)),
            mist=1.0 if reading.has("mist") else 0.45,
        )
        if reading.has("forest"):
            edge = np.full(canvas.width, self._horizon, np.float32)
            trees = land.spruces(
                layer, stage.rng("wood"), edge, count=int(240 * canvas.aspect), low=0.02, high=0.05
            )
            layer.lay(trees, mix(self._light.shadow, self._light.haze, 0.22))
        return layer

    def _front(self, canvas: Canvas) -> Layer:
        stage, light = self._stage, self._light
        layer = canvas.layer()
        if self._tower is None:
            if stage.reading.has("forest", "lake"):
                self._shore(layer)
            return layer
        tower = self._tower
        side = 1 if tower.x > 0 else -1
        edge = land.headland(canvas, stage.rng("head"), tower.x, self._horizon, side)
        tower.foot = float(edge[canvas.column(tower.x)]) + 0.012
        tower.lamp = tower.foot - tower.tall * 0.875
        tower.paint(layer, light)
        self._cliff(layer, edge)
        return layer

    def _cliff(self, layer: Layer, edge: Floats) -> None:
        """Rock that catches a little light on the sun's side, grass along its rim."""
        stage, light, mask = self._stage, self._light, layer.below(edge)
        depth = layer.y - edge[None, :]
        facing = np.float32(1 if light.x < 0 else -1)
        faces = land.slopes(layer, stage.rng("rock"), depth * 9, facing)
        power = np.float32({"day": 0.42, "dawn": 0.24, "dusk": 0.15, "night": 0.03}[light.hour])
        lit = np.clip(faces, 0, 1.2) * (0.35 + 0.65 * np.exp(-np.clip(depth, 0, 1) * 6)) * power
        body = light.shadow * np.float32(0.42) + lit[..., None] * mix(light.glow, light.haze, 0.45)
        layer.lay(mask, body.astype(np.float32))
        grass = smooth(0.026 - depth + 0.012 * (faces - 0.5), 0.0, 0.022)
        green = mix(rgb("#66803f"), light.glow, 0.2) * power * np.float32(1.5)
        layer.lay(mask * grass * np.float32(0.75), green)

    def _shore(self, layer: Layer) -> None:
        stage, light = self._stage, self._light
        edge = land.bank(layer, stage.rng("bank"), 0.93, 0.07)
        dark = light.shadow * np.float32(0.45)
        if stage.reading.has("forest"):
            trees = land.spruces(
                layer, stage.rng("near"), edge, count=int(16 * layer.aspect), low=0.12, high=0.34
            )
            layer.lay(trees, dark)
        layer.lay(layer.below(edge), dark)

    def _boats(self, canvas: Canvas, t: float) -> None:
        stage = self._stage
        if not stage.reading.has("boat") and not stage.happens("boat", 0.35):
            return
        rng = stage.rng("boats")
        side = 1 if self._light.x > 0 else -1
        for _ in range(2 if stage.reading.has("boat") else 1):
            x = side * float(rng.uniform(0.02, 0.3)) + 0.004 * t
            away = float(rng.uniform(0.015, 0.07))
            boat(canvas, self._light, x, self._horizon + away, 0.012 + 0.22 * away)

    def _mist(self, canvas: Canvas, t: float) -> None:
        veil = field(self._stage.rng("mist"), 128, 256, (3, 4), 4)
        rows = np.clip((canvas.y * 127), 0, 127).astype(int)
        columns = ((canvas.x + 2) * 120 + 6 * t).astype(int) % 256
        band = np.exp(-(((canvas.y - self._horizon) / 0.13) ** 2))
        canvas.lay(band * (0.35 + 0.5 * veil[rows, columns]), self._light.haze)


def canvas_width(stage: Stage) -> float:
    return stage.width / stage.height
