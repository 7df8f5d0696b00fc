"""Water: what stands above it, upside down, broken by ripples; and a path of light."""

import numpy as np

from safelight.generations.studio.canvas import Canvas, blurred
from safelight.generations.studio.colour import Floats
from safelight.generations.studio.light import Light
from safelight.generations.studio.noise import Random, field, sample, smooth


class Water:
    """`rough` from 0 (a mirror) to 1 (a breeze)."""

    def __init__(self, canvas: Canvas, rng: Random, horizon: float, rough: float) -> None:
        self._horizon, self._rough = horizon, rough
        self._top = int(horizon * canvas.height)
        self._size = 512
        self._ripples = field(rng, self._size, self._size, (9, 5), 6, 0.6)
        self._sparkle = field(rng, self._size, self._size, (60, 34), 3, 0.6)
        rows = np.arange(canvas.height - self._top, dtype=np.float32)[:, None]
        self._depth = (rows + 1.0) / np.float32(canvas.height)
        near = self._depth / np.float32(max(1 - horizon, 0.05))
        self._near = near
        scale = np.float32(1.0) / (np.float32(0.035) + near)
        self._across = canvas.x * scale * np.float32(self._size * 0.42) + self._size / 2
        self._down = np.broadcast_to(
            np.log(near + np.float32(0.02)) * np.float32(self._size * 0.34), self._across.shape
        )

    def paint(self, canvas: Canvas, light: Light, t: float, *, path: float = 1.0) -> None:
        drift = np.float32(14 * t)
        wave = sample(self._ripples, self._down - drift, self._across + drift * 0.4) - 0.5
        chop = sample(self._ripples, self._down * 2.1 + drift, self._across * 2.3) - 0.5
        mirrored = self._mirrored(canvas, wave + 0.5 * chop)
        fresnel = np.clip(1.0 - 0.62 * self._near, 0.2, 1)[..., None]
        deep = (light.shadow * np.float32(0.55) + light.haze * np.float32(0.10)).astype(np.float32)
        surface = mirrored * fresnel * np.float32(0.86) + deep * (1 - fresnel)
        shaded = surface * (1 + np.float32(0.55 * self._rough) * (wave + chop)[..., None])
        canvas.image[self._top :] = np.maximum(shaded, 0)
        self._glitter(canvas, light, drift, path)
        line = np.exp(-self._depth / np.float32(0.004)) * np.float32(0.3)
        canvas.image[self._top :] += line[..., None] * light.glow * np.float32(0.5)

    def _mirrored(self, canvas: Canvas, wave: Floats) -> Floats:
        """Sampled above the horizon at the same distance, pulled about by the waves."""
        above = blurred(canvas.image[: self._top], 2.0 + 3.0 * self._rough)
        bend = np.float32(0.012 + 0.09 * self._rough) * self._near * wave
        up = (self._depth * np.float32(0.92) + bend * 1.4) * np.float32(canvas.height)
        rows = np.clip(self._top - 1 - up, 0, self._top - 1).astype(np.int32)
        shift = bend * np.float32(canvas.height * 0.55)
        columns = np.clip(np.arange(canvas.width)[None, :] + shift, 0, canvas.width - 1)
        return above[rows, columns.astype(np.int32)]

    def _glitter(self, canvas: Canvas, light: Light, drift: np.float32, path: float) -> None:
        """Under the sun or the moon: sparks, denser the nearer to its line."""
        spread = np.float32(0.035) + np.float32(0.16) * self._near
        near = np.exp(-(((canvas.x - np.float32(light.x)) / spread) ** 2))
        spark = sample(self._sparkle, self._down * 1.6 - drift * 1.3, self._across * 0.55 + drift)
        threshold = 0.62 - 0.18 * near
        bright = np.clip((spark - threshold) * 5, 0, 1) * near * np.float32(path)
        fade = np.float32(0.35) + np.float32(0.65) * np.exp(-self._near * 1.1)
        strength = np.float32(0.75 if light.is_dark else 1.5)
        canvas.image[self._top :] += (bright * fade * strength)[..., None] * light.sun
        sheen = near * np.float32(0.16 * path) * smooth(self._near, 0.0, 0.15)
        canvas.image[self._top :] += sheen[..., None] * light.glow
