"""The light of a scene: the hour's colours, bent towards those the prompt names."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from safelight.generations.studio.colour import Floats, mix, ramp, rgb
from safelight.generations.studio.noise import Random, happens
from safelight.generations.studio.prompt import Reading

# From the zenith to the horizon, then the light near the sun, its colour, haze and shadow.
_HOURS: Final[dict[str, tuple[tuple[str, ...], str, str, str, str]]] = {
    "dawn": (
        ("#2c4a7c", "#5b7fb4", "#a9b3cf", "#f0c3b4", "#ffd9a8"),
        "#ffb27d", "#fff0cf", "#e6c4bd", "#2b2f4a",
    ),
    "day": (
        ("#1f5fae", "#3f86cc", "#7fb5e2", "#bcdcf0", "#e3f1f6"),
        "#fff6df", "#fffbee", "#c9dfeb", "#24405c",
    ),
    "dusk": (
        ("#1b2350", "#3d3f7d", "#8a5c92", "#e8806b", "#ffc069"),
        "#ff8a3c", "#ffe3a6", "#c98590", "#191a33",
    ),
    "night": (
        ("#040817", "#0a1430", "#13264d", "#22406b", "#39587d"),
        "#6f8fc0", "#f3f1e2", "#24385c", "#050914",
    ),
}  # fmt: skip
_PLACES: Final = (0.0, 0.3, 0.58, 0.84, 1.0)


@dataclass(frozen=True, slots=True)
class Light:
    hour: str
    sky: Floats  # a table from the zenith to the horizon
    glow: Floats
    sun: Floats
    haze: Floats
    shadow: Floats
    x: float  # where the sun or the moon stands
    y: float

    @property
    def is_dark(self) -> bool:
        return self.hour == "night"


def light_of(reading: Reading, rng: Random, horizon: float, *, default: str) -> Light:
    hour = reading.hour or default
    codes, glow, sun, haze, shadow = _HOURS[hour]
    stops = [rgb(code) for code in codes]
    accents = [rgb(code) for code in reading.colours]
    parts = [rgb(glow), rgb(haze)]
    if accents:
        first, last = accents[0], accents[-1]
        pull = 0.34 if hour == "day" else 0.5
        stops[3] = mix(stops[3], first, pull)
        stops[2] = mix(stops[2], mix(first, last, 0.5), pull * 0.8)
        stops[4] = mix(stops[4], first, pull * 0.6)
        stops[1] = mix(stops[1], last, pull * (0.75 if len(accents) > 1 else 0.3))
        parts = [mix(parts[0], first, 0.6), mix(parts[1], first, 0.45)]
    if reading.has("mist", "rain"):
        grey = mix(parts[1], rgb("#aab4bf" if hour != "night" else "#2b3647"), 0.55)
        stops = [mix(stop, grey, 0.45) for stop in stops]
    x, y = _place(hour, rng, horizon)
    table = ramp(*zip(_PLACES, stops, strict=True))
    return Light(hour, table, parts[0], rgb(sun), parts[1], rgb(shadow), x, y)


def _place(hour: str, rng: Random, horizon: float) -> tuple[float, float]:
    side = float(rng.uniform(0.1, 0.3)) * (1 if happens(rng, 0.5) else -1)
    height = {"dawn": 0.055, "day": 0.42, "dusk": 0.035, "night": 0.36}[hour]
    return side, horizon - height - float(rng.uniform(0, 0.03))


def shade(colour: Floats, share: float) -> Floats:
    return (colour * np.float32(share)).astype(np.float32)
