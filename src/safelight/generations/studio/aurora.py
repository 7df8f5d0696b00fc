"""Northern lights over snow, forest and still water."""

import numpy as np

from safelight.generations.studio import land, sky
from safelight.generations.studio.canvas import Canvas, Layer, Points
from safelight.generations.studio.colour import Floats, mix, rgb
from safelight.generations.studio.light import Light, light_of
from safelight.generations.studio.noise import field, smooth
from safelight.generations.studio.prompt import Reading
from safelight.generations.studio.scene import Stage
from safelight.generations.studio.water import Water

_CURTAINS = (
    ("#3df58a", "#2bc5c0", "#8a5cf0"),
    ("#57f2a0", "#7be04a", "#c04fd6"),
    ("#2fe6b8", "#4d8df5", "#b455e8"),
)


class NorthernLights:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._horizon = 0.66 + 0.04 * stage.chance("horizon")
        night = Reading("night", stage.reading.things, ())
        self._light = light_of(night, stage.rng("light"), self._horizon, default="night")
        canvas = stage.canvas()
        colours = self._colours()
        self._aurora = sky.Aurora(canvas, stage.rng("aurora"), self._horizon, colours)
        self._water = Water(canvas, stage.rng("water"), self._horizon, 0.14)
        self._tint = mix(colours[0], self._light.haze, 0.5)
        self._far, self._near = self._behind(canvas), self._front(canvas)

    def paint(self, t: float) -> Canvas:
        stage, light, canvas = self._stage, self._light, self._stage.canvas()
        sky.wash(canvas, light, self._horizon)
        sky.stars(canvas, stage.rng("stars"), self._horizon, 1.25, t)
        self._aurora.paint(canvas, t)
        if stage.reading.has("moon"):
            sky.moon(canvas, light, stage.rng("moon"), 0.03)
        canvas.put(self._far)
        path = 0.7 if stage.reading.has("moon") else 0.0
        self._water.paint(canvas, light, t, path=path)
        canvas.put(self._near)
        return canvas

    def _colours(self) -> list[Floats]:
        named = [rgb(code) for code in self._stage.reading.colours]
        found = _CURTAINS[int(self._stage.rng("curtain").integers(len(_CURTAINS)))]
        return (named + [rgb(code) for code in found])[: max(3, len(named))]

    def _behind(self, canvas: Canvas) -> Layer:
        stage, layer = self._stage, canvas.layer()
        far = _tinted(self._light, self._tint)
        land.ranges(
            layer,
            far,
            stage.rng("ranges"),
            self._horizon,
            layers=3,
            height=0.24 if stage.reading.has("mountains") else 0.16,
            snow=True,
            mist=0.3,
        )
        edge = np.full(canvas.width, self._horizon, np.float32)
        count = int((300 if stage.reading.has("forest") else 190) * canvas.aspect)
        trees = land.spruces(layer, stage.rng("wood"), edge, count=count, low=0.02, high=0.055)
        layer.lay(trees, self._light.shadow * np.float32(0.8))
        return layer

    def _front(self, canvas: Canvas) -> Layer:
        stage, layer = self._stage, canvas.layer()
        edge = land.bank(canvas, stage.rng("bank"), 0.92, 0.09)
        soft = field(stage.rng("drift"), canvas.height, canvas.width, (8, 6), 5)
        snow = mix(rgb("#9fb4d6"), self._tint, 0.45)
        depth = np.clip((canvas.y - edge[None, :]) * 9, 0, 1)
        body = snow * (0.12 + 0.12 * soft * (1 - depth) + 0.10 * np.exp(-depth * 5))[..., None]
        count = int((26 if stage.reading.has("forest") else 12) * canvas.aspect)
        trees = land.spruces(layer, stage.rng("near"), edge, count=count, low=0.10, high=0.36)
        layer.lay(trees, self._light.shadow * np.float32(0.42))
        if stage.happens("cabin", 0.55):
            self._cabin(layer, edge)
        layer.lay(canvas.below(edge), body.astype(np.float32))
        return layer

    def _cabin(self, layer: Layer, edge: Floats) -> None:
        """A hut with a lit window, snow on its roof."""
        x = float(self._stage.rng("hut").uniform(-0.3, 0.3)) * min(layer.aspect, 1.3)
        foot = float(edge[layer.column(x)]) + 0.01
        wall: Points = [(x - 0.05, foot), (x - 0.05, foot - 0.05), (x, foot - 0.085),
                        (x + 0.05, foot - 0.05), (x + 0.05, foot)]  # fmt: skip
        eaves, ridge = foot - 0.043, foot - 0.098
        roof: Points = [(x - 0.066, eaves), (x, ridge), (x + 0.066, eaves),
                        (x + 0.06, eaves + 0.006), (x, ridge + 0.014),
                        (x - 0.06, eaves + 0.006)]  # fmt: skip
        layer.lay(layer.shape(wall), rgb("#0d0b12"))
        layer.lay(layer.shape(roof), mix(rgb("#b8c8e0"), self._tint, 0.4) * np.float32(0.32))
        panes = [_pane(x - 0.022, foot - 0.014), _pane(x + 0.008, foot - 0.014)]
        layer.lay(layer.shape(*panes), rgb("#ffc66b") * np.float32(1.6))
        warm = layer.glow(x, foot - 0.02, 0.07, 1.3) * smooth(layer.y, foot - 0.08, foot)
        layer.light(warm * np.float32(0.22), rgb("#ffb45c"))


def _pane(left: float, bottom: float) -> Points:
    right, top = left + 0.014, bottom - 0.019
    return [(left, bottom), (left, top), (right, top), (right, bottom)]


def _tinted(light: Light, tint: Floats) -> Light:
    haze = mix(light.haze, tint, 0.3) * np.float32(0.55)
    return Light(
        light.hour, light.sky, mix(light.glow, tint, 0.6), light.sun, haze, light.shadow,
        light.x, light.y,
    )  # fmt: skip
