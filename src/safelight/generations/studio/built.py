"""What people build: lighthouses, boats."""

import numpy as np

from safelight.generations.studio.canvas import Canvas, Points
from safelight.generations.studio.colour import Floats, mix, rgb
from safelight.generations.studio.light import Light
from safelight.generations.studio.noise import Random, smooth


class Lighthouse:
    """A tapering tower with bands, a gallery, a lantern, and two turning beams."""

    def __init__(self, x: float, foot: float, tall: float, band: Floats) -> None:
        self.x, self.foot, self.tall, self._band = x, foot, tall, band
        self.lamp = foot - tall * 0.90

    def paint(self, canvas: Canvas, light: Light) -> None:
        x, foot, tall = self.x, self.foot, self.tall
        wide, narrow = tall * 0.115, tall * 0.068
        top = foot - tall * 0.80
        tower: Points = [(x - wide, foot), (x - narrow, top), (x + narrow, top), (x + wide, foot)]
        mask = canvas.shape(tower)
        canvas.lay(mask, self._shaded(canvas, light, rgb("#efe9df"), wide))
        height = (foot - canvas.y) / np.float32(tall * 0.8)
        bands = smooth(np.sin(height * np.float32(2 * np.pi * 2.5) - 0.6), -0.02, 0.02)
        canvas.lay(mask * bands, self._shaded(canvas, light, self._band, wide))
        self._lantern(canvas, light, top)

    def _shaded(self, canvas: Canvas, light: Light, colour: Floats, wide: float) -> Floats:
        """A round wall: bright towards the sun, in shadow on the other side."""
        share = np.clip((canvas.x - np.float32(self.x)) / np.float32(wide), -1, 1)
        lit = 0.5 + 0.5 * np.clip(share * (1 if light.x > self.x else -1) * 1.1, -1, 1)
        power = {"day": 0.95, "dawn": 0.7, "dusk": 0.55, "night": 0.16}[light.hour]
        dark = mix(light.shadow, light.haze, 0.28)
        bright = colour * mix(rgb("#ffffff"), light.glow, 0.45) * np.float32(power * 1.5)
        shade = colour * dark * np.float32(1.4) + dark * np.float32(0.25)
        face: Floats = shade + (lit**1.4)[..., None] * (bright - shade)
        return np.broadcast_to(face, canvas.image.shape).astype(np.float32)

    def _lantern(self, canvas: Canvas, light: Light, top: float) -> None:
        x, tall = self.x, self.tall
        dark = mix(light.shadow, light.haze, 0.12)
        gallery = _box(x, top - tall * 0.005, tall * 0.098, tall * 0.028)
        rail = [_box(x + tall * at, top - tall * 0.045, tall * 0.004, tall * 0.055)
                for at in np.linspace(-0.088, 0.088, 9)]  # fmt: skip
        canvas.lay(
            canvas.shape(gallery, *rail, _box(x, top - tall * 0.07, tall * 0.09, tall * 0.007)),
            dark,
        )
        room = _box(x, top - tall * 0.075, tall * 0.05, tall * 0.105)
        lamp = rgb("#ffe7ad") * np.float32(1.9 if light.hour != "day" else 1.0)
        canvas.lay(canvas.shape(room), lamp)
        frame = [_box(x + tall * at, top - tall * 0.075, tall * 0.0045, tall * 0.105)
                 for at in (-0.048, -0.017, 0.017, 0.048)]  # fmt: skip
        crown = top - tall * 0.127
        roof: Points = [
            (x - tall * 0.07, crown),
            (x, crown - tall * 0.075),
            (x + tall * 0.07, crown),
        ]
        canvas.lay(
            canvas.shape(*frame, roof, _box(x, crown - tall * 0.085, tall * 0.004, tall * 0.05)),
            dark,
        )

    def shine(self, canvas: Canvas, light: Light, t: float) -> None:
        """The glow, and the beams where it is dark enough to see them."""
        power = {"day": 0.0, "dawn": 0.45, "dusk": 0.8, "night": 1.0}[light.hour]
        if power == 0.0:
            return
        warm = rgb("#ffdf9e")
        canvas.light(canvas.glow(self.x, self.lamp, 0.05) * np.float32(0.9 * power), warm)
        canvas.light(canvas.glow(self.x, self.lamp, 0.16) * np.float32(0.25 * power), warm)
        dx, dy = canvas.x - np.float32(self.x), canvas.y - np.float32(self.lamp)
        away = np.hypot(dx, dy) + np.float32(1e-4)
        for turn, share in ((0.0, 1.0), (np.pi, 0.8)):
            angle = turn + (0.06 if self.x < 0 else np.pi - 0.06) + 0.5 * t
            reach = np.cos(angle)
            off = np.abs(np.arctan2(dy, dx * np.sign(reach)) + 0.05)
            width = 0.055 + 0.05 * (1 - abs(reach))
            cone = np.exp(-((off / np.float32(width)) ** 2)) * np.exp(-away * 1.5)
            canvas.light(cone * np.float32(0.42 * power * share * abs(reach)), warm)


def boat(canvas: Canvas, light: Light, x: float, y: float, size: float) -> None:
    """A small sailing boat, dark against the light."""
    hull: Points = [
        (x - size, y),
        (x + size * 1.05, y),
        (x + size * 0.7, y + size * 0.3),
        (x - size * 0.75, y + size * 0.3),
    ]
    main: Points = [
        (x + size * 0.08, y - size * 0.1),
        (x + size * 0.08, y - size * 2.3),
        (x + size * 0.95, y - size * 0.1),
    ]
    jib: Points = [
        (x - size * 0.04, y - size * 0.1),
        (x - size * 0.04, y - size * 1.9),
        (x - size * 0.8, y - size * 0.1),
    ]
    canvas.lay(canvas.shape(hull), mix(light.shadow, light.haze, 0.08))
    sail = mix(rgb("#f6efe2"), light.haze, 0.4) * np.float32(0.25 if light.is_dark else 0.75)
    canvas.lay(canvas.shape(main, jib), sail.astype(np.float32))


def birds(canvas: Canvas, light: Light, rng: Random, t: float) -> None:
    """A loose flock far off."""
    x0, y0 = float(rng.uniform(-0.25, 0.25)) + 0.02 * t, float(rng.uniform(0.16, 0.3))
    wings: list[Points] = []
    for _ in range(int(rng.integers(5, 11))):
        x, y = x0 + float(rng.normal(0, 0.07)), y0 + float(rng.normal(0, 0.03))
        size = float(rng.uniform(0.006, 0.012))
        lift = size * (0.55 + 0.3 * np.sin(9 * t + 40 * x))
        wings.append([(x - size, y - lift), (x - size * 0.4, y - lift * 0.75), (x, y),
                      (x + size * 0.4, y - lift * 0.75), (x + size, y - lift),
                      (x + size * 0.4, y - lift * 0.45), (x, y + size * 0.22),
                      (x - size * 0.4, y - lift * 0.45)])  # fmt: skip
    canvas.lay(canvas.shape(*wings) * np.float32(0.8), mix(light.shadow, light.haze, 0.2))


def _box(x: float, bottom: float, half: float, tall: float) -> Points:
    return [
        (x - half, bottom),
        (x - half, bottom - tall),
        (x + half, bottom - tall),
        (x + half, bottom),
    ]
