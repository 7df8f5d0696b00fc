"""Meadows and flowers in soft light: far ones blurred, near ones sharp."""

from dataclasses import dataclass

import numpy as np

from safelight.generations.studio import sky
from safelight.generations.studio.canvas import Canvas, Layer, Points, blurred
from safelight.generations.studio.colour import Floats, mix, rgb
from safelight.generations.studio.flora import FLOWERS, FlowerPart, blades, stem, toned
from safelight.generations.studio.light import light_of
from safelight.generations.studio.noise import Random, field, happens, line, smooth
from safelight.generations.studio.scene import Stage

_POWER = {"day": 1.05, "dawn": 0.95, "dusk": 0.85, "night": 0.32}


@dataclass(frozen=True, slots=True)
class MeadowRow:
    """One depth of the meadow."""

    foot: float
    size: float
    tall: float
    flowers: int
    grass: int
    blur: float
    near: float


_ROWS = (
    MeadowRow(0.66, 0.008, 0.03, 150, 500, 5.0, 0.15),
    MeadowRow(0.74, 0.014, 0.07, 90, 420, 3.0, 0.35),
    MeadowRow(0.86, 0.024, 0.15, 46, 330, 1.2, 0.6),
    MeadowRow(1.02, 0.047, 0.36, 15, 240, 0.0, 1.0),
    MeadowRow(1.22, 0.085, 0.32, 4, 60, 14.0, 0.75),
)


class Meadow:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._horizon = 0.52 + 0.06 * stage.chance("horizon")
        rng = stage.rng("light")
        default = ("dawn", "day", "dusk")[int(rng.integers(3))]
        self._light = light_of(stage.reading, rng, self._horizon, default=default)
        canvas = stage.canvas()
        self._clouds = sky.Clouds(canvas, stage.rng("clouds"), self._horizon, 0.44)
        self._kinds = self._chosen()
        self._hills = self._behind(canvas)
        self._rows = [self._row(canvas, at, row) for at, row in enumerate(_ROWS)]

    def paint(self, t: float) -> Canvas:
        light, canvas = self._light, self._stage.canvas()
        sky.wash(canvas, light, self._horizon)
        if light.is_dark:
            sky.stars(canvas, self._stage.rng("stars"), self._horizon, 0.8, t)
            sky.moon(canvas, light, self._stage.rng("moon"))
        elif light.hour != "day":
            sky.sun(canvas, light)
        self._clouds.paint(canvas, light, t)
        canvas.put(self._hills)
        for at, layer in enumerate(self._rows):
            canvas.put(_swayed(layer, at, t))
            if at < len(_ROWS) - 2:
                self._haze(canvas, _ROWS[at])
        self._motes(canvas, t)
        return canvas

    def _chosen(self) -> list[str]:
        named = [name for name in FLOWERS if self._stage.reading.has(name)]
        if named:
            return named
        return [list(FLOWERS)[int(self._stage.rng("kinds").integers(len(FLOWERS)))], "daisies"]

    def _behind(self, canvas: Canvas) -> Layer:
        stage, light, layer = self._stage, self._light, canvas.layer()
        for at in range(3):
            crest = line(stage.rng(f"hill {at}"), canvas.width, 2.4 * canvas.aspect, 5)
            bumps = line(stage.rng(f"wood {at}"), canvas.width, 60 * canvas.aspect, 3)
            edge = self._horizon + 0.03 * at - (0.10 - 0.03 * at) * crest - 0.012 * bumps
            green = mix(rgb("#3f6b3a"), light.haze, 0.75 - 0.22 * at)
            layer.lay(canvas.below(edge.astype(np.float32)), green * np.float32(_POWER[light.hour]))
        soft = field(stage.rng("field"), canvas.height, canvas.width, (40, 12), 4)
        ground = np.full(canvas.width, self._horizon + 0.045, np.float32)
        far, near = rgb("#93a84e"), rgb("#2c4a1f")
        share = smooth(canvas.y, self._horizon, 1.0)[..., None]
        grass = mix(far, light.glow, 0.25) * (1 - share) + near * share
        shaded = grass * (0.6 + 0.6 * soft)[..., None] * np.float32(_POWER[light.hour])
        layer.lay(canvas.below(ground), shaded.astype(np.float32))
        return _blurred_layer(layer, canvas.height / 260)

    def _row(self, canvas: Canvas, at: int, row: MeadowRow) -> Layer:
        rng, layer = self._stage.rng(f"row {at}"), canvas.layer()
        power = _POWER[self._light.hour]
        green = mix(rgb("#4f7d2e"), self._light.haze, 0.5 * (1 - row.near))
        shade = np.float32(power * (0.75 - 0.4 * row.near))
        grass = blades(canvas, rng, row.foot, row.tall * 1.15, int(row.grass * canvas.aspect))
        layer.lay(layer.shape(*grass[::2]), green * shade * np.float32(0.6))
        layer.lay(layer.shape(*grass[1::2]), mix(green, self._light.glow, 0.2) * shade)
        self._flowers(layer, rng, row, power)
        return _blurred_layer(layer, row.blur * canvas.height / 1000)

    def _flowers(self, layer: Layer, rng: Random, row: MeadowRow, power: float) -> None:
        half = layer.aspect / 2 + row.size
        stems: list[Points] = []
        heads: dict[tuple[str, str], list[list[FlowerPart]]] = {}
        for x in np.sort(
            rng.uniform(-half, half, int(row.flowers * max(layer.aspect, 0.6)))
        ).tolist():
            size = row.size * float(rng.uniform(0.7, 1.2))
            top = row.foot - row.tall * float(rng.uniform(0.75, 1.25))
            stems.append(
                stem(x, top, row.foot, float(rng.normal(0, 0.35)) * row.tall, size * 0.045)
            )
            name = self._kinds[0 if happens(rng, 0.75) else -1]
            draw, colours, _ = FLOWERS[name]
            code = self._colour(rng, colours)
            heads.setdefault((name, code), []).append(draw(x, top, size, rng))
        green = mix(rgb("#3f6b2a"), self._light.haze, 0.4 * (1 - row.near)) * np.float32(
            power * 0.6
        )
        layer.lay(layer.shape(*stems), green)
        for (name, code), flowers in heads.items():
            self._heads(layer, name, rgb(code), flowers, row, power)

    def _heads(
        self,
        layer: Layer,
        name: str,
        colour: Floats,
        flowers: list[list[FlowerPart]],
        row: MeadowRow,
        power: float,
    ) -> None:
        """Part by part over all flowers of a colour: a few masks instead of one each."""
        middle = rgb(FLOWERS[name][2])
        for nth in range(len(flowers[0])):
            parts = [flower[nth] for flower in flowers]
            own = middle if parts[0].heart else mix(colour, self._light.haze, 0.3 * (1 - row.near))
            shown = toned(own, parts[0].tone, self._light.glow, power)
            layer.lay(layer.shape(*(shape for part in parts for shape in part.shapes)), shown)

    def _colour(self, rng: Random, colours: tuple[str, ...]) -> str:
        named = self._stage.reading.colours
        wanted = named or colours
        return wanted[int(rng.integers(len(wanted)))]

    def _haze(self, canvas: Canvas, row: MeadowRow) -> None:
        thick = 0.34 if self._stage.reading.has("mist") else 0.12
        band = np.exp(-(((canvas.y - row.foot + row.tall) / 0.10) ** 2)) * np.float32(thick)
        canvas.lay(np.broadcast_to(band, (canvas.height, canvas.width)), self._light.haze)

    def _motes(self, canvas: Canvas, t: float) -> None:
        """Pollen in the light, drifting; at night, fireflies."""
        rng = self._stage.rng("motes")
        count = 70
        x = rng.uniform(-0.5, 0.5, count) * canvas.aspect + 0.012 * np.sin(
            t + rng.uniform(0, 6, count)
        )
        y = rng.uniform(0.35, 0.97, count) - 0.01 * t * rng.random(count)
        sizes = (0.0012 + 0.003 * rng.random(count) ** 3).tolist()
        spots = canvas.spots(list(zip(x.tolist(), y.tolist(), strict=True)), sizes)
        soft = blurred(spots, canvas.height / 300)
        colour = (
            rgb("#d9ff8a") if self._light.is_dark else mix(self._light.glow, rgb("#ffffff"), 0.4)
        )
        canvas.light(soft * np.float32(0.9 if self._light.is_dark else 0.5), colour)


def _swayed(layer: Layer, at: int, t: float) -> Layer:
    """In the wind: what stands higher moves further."""
    if t == 0.0:
        return layer
    moved = Layer(layer.width, layer.height)
    reach = (0.002 + 0.0018 * at) * layer.height
    lean = np.sin(1.7 * t + at) * reach * np.clip(1.1 - layer.y[:, 0], 0, 1) * 2
    columns = np.arange(layer.width)[None, :] - lean[:, None]
    index = np.clip(np.round(columns), 0, layer.width - 1).astype(np.int32)
    rows = np.arange(layer.height)[:, None]
    moved.image, moved.cover = layer.image[rows, index], layer.cover[rows, index]
    return moved


def _blurred_layer(layer: Layer, radius: float) -> Layer:
    if radius >= 1:
        layer.image = np.maximum(blurred(layer.image, radius), 0)
        layer.cover = np.clip(blurred(layer.cover, radius), 0, 1)
    return layer
