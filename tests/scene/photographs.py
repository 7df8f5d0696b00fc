"""Photographs as a library of some months holds them: many shapes, sizes, days and names. Cut from
samples of scikit-image, from tests/photos and from what the studio draws, so that they are the same
everywhere and nobody's but those in docs/images/NOTICE."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import skimage
from PIL import Image

from safelight.generations.lifecycle import MediaKind
from safelight.generations.studio.catalogue import Commission
from safelight.generations.studio.render import render

_SAMPLES = Path(skimage.__file__).parent / "data"
_OURS = Path(__file__).parents[1] / "photos"
_WHOLE = (0.0, 0.0, 1.0, 1.0)
_LONGEST = 960  # pixels of a side, the smaller ones are enlarged to it
_STUDIO = {
    "dusk": ("studio/horizon", "a lighthouse at dusk above a calm sea", 720, 480),
    "peaks": ("studio/horizon", "mountains at sunrise", 704, 320),
    "lights": ("studio/aurora", "green northern lights over a forest lake", 416, 624),
    "city": ("studio/nocturne", "a rainy city at night in violet and gold", 640, 360),
    "poppies": ("studio/bloom", "poppies in a meadow on a misty morning", 448, 560),
}

Part = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Photograph:
    """`days`: how long ago it came."""

    name: str
    data: bytes
    days: float


# Name, where it is cut from, which part of it, and how many days ago it came; the oldest first.
_TAKEN: tuple[tuple[str, str, Part, float], ...] = (
    ("Coins of the museum.jpg", "coins.png", _WHOLE, 172),
    ("IMG_0015.jpg", "coins.png", (0, 0.5, 1, 1), 171.96),
    ("Bricks, south wall.jpg", "brick.png", _WHOLE, 158),
    ("Gravel sample 04.png", "gravel.png", (0, 0, 0.7, 0.7), 157.9),
    ("Meadow, close.jpg", "grass.png", (0, 0, 1, 0.62), 157.8),
    ("Camera man.jpg", "camera.png", _WHOLE, 141),
    ("Camera man, portrait.jpg", "camera.png", (0.18, 0.05, 0.66, 0.95), 140.98),
    ("Bricks, detail.jpg", "brick.png", (0.1, 0.1, 0.6, 0.85), 133),
    ("Meadow, trodden.jpg", "grass.png", (0.3, 0, 1, 1), 132.9),
    ("Retina left.jpg", "retina.jpg", _WHOLE, 120),
    ("Section 7, stained.png", "ihc.png", _WHOLE, 119.7),
    ("Section 7, detail.jpg", "ihc.png", (0.05, 0.5, 0.95, 1), 119.69),
    ("Deep field.jpg", "hubble_deep_field.jpg", _WHOLE, 9.3),
    ("Deep field, wide.jpg", "hubble_deep_field.jpg", (0, 0.3, 1, 0.68), 9.29),
    ("Deep field, north.jpg", "hubble_deep_field.jpg", (0.5, 0, 1, 0.6), 9.28),
    ("DSC04112.jpg", "rocket.jpg", _WHOLE, 9.1),
    ("DSC04113.jpg", "rocket.jpg", (0.36, 0, 0.78, 1), 9.09),
    ("Launch pad at night.jpg", "rocket.jpg", (0, 0.45, 1, 1), 9.08),
    ("Eileen Collins.jpg", "astronaut.png", _WHOLE, 9),
    ("Eileen Collins, portrait.jpg", "astronaut.png", (0.22, 0, 0.72, 0.7), 8.99),
    ("Helmet.jpg", "astronaut.png", (0.4, 0.6, 1, 1), 8.98),
    ("Peaks at sunrise.jpg", "peaks", _WHOLE, 1.6),
    ("Peaks, panorama.jpg", "peaks", (0, 0.2, 1, 0.75), 1.59),
    ("Lake.jpg", "peaks", (0.45, 0.35, 1, 1), 1.58),
    ("IMG_0934.jpg", "city", (0.3, 0, 0.6, 1), 1.49),
    ("IMG_0712.jpg", "cat.jpg", (0.2, 0, 0.85, 1), 1.4),
    ("Sky over the meadow.jpg", "poppies", (0, 0, 1, 0.45), 0.128),
    ("Saucer.jpg", "coffee.png", (0.25, 0.5, 1, 1), 0.122),
    ("Spruces.jpg", "lights", (0.3, 0.45, 1, 1), 0.116),
    ("Petals.jpg", "daisy.jpg", (0.42, 0.3, 0.86, 0.8), 0.110),
    ("Towers.jpg", "city", (0.5, 0.15, 1, 0.85), 0.104),
    ("Chelsea, asleep soon.jpg", "cat.jpg", (0.3, 0.2, 1, 0.8), 0.098),
    ("Poppies in the mist.jpg", "poppies", (0, 0.3, 1, 0.85), 0.092),
    ("Lighthouse at dusk, the light.jpg", "dusk", (0.1, 0, 0.5, 1), 0.086),
    ("Dahlia.jpg", "daisy.jpg", _WHOLE, 0.080),
    ("Northern lights, wide.jpg", "lights", (0, 0.25, 1, 0.7), 0.074),
    ("Espresso, from above.jpg", "coffee.png", (0.2, 0, 0.75, 1), 0.068),
    ("Sunset.jpg", "dusk", (0.4, 0.3, 1, 0.9), 0.062),
    ("Poppies.jpg", "poppies", _WHOLE, 0.056),
    ("IMG_0933.jpg", "city", _WHOLE, 0.050),
    ("Chelsea.jpg", "cat.jpg", _WHOLE, 0.044),
    ("Dahlia, portrait.jpg", "daisy.jpg", (0.38, 0.1, 0.86, 1), 0.038),
    ("Espresso.jpg", "coffee.png", _WHOLE, 0.032),
    ("Northern lights.jpg", "lights", _WHOLE, 0.026),
    ("Lighthouse at dusk.jpg", "dusk", _WHOLE, 0.020),
)  # fmt: skip


@cache
def photographs() -> tuple[Photograph, ...]:
    return tuple(_photographs())


def _photographs() -> Iterator[Photograph]:
    for name, source, part, days in _TAKEN:
        yield Photograph(name, _encoded(_cut(_source(source), part), name), days)


@cache
def _source(name: str) -> Image.Image:
    if name in _STUDIO:
        model, prompt, width, height = _STUDIO[name]
        drawn = render(Commission(model, MediaKind.IMAGE, prompt, 7, width, height, "JPEG", 1))
        return Image.open(io.BytesIO(drawn)).convert("RGB")
    path = _OURS / name
    return Image.open(path if path.exists() else _SAMPLES / name).convert("RGB")


def _cut(image: Image.Image, part: Part) -> Image.Image:
    left, top, right, bottom = part
    across, down = image.size
    cut = image.crop((int(left * across), int(top * down), int(right * across), int(bottom * down)))
    scale = _LONGEST / max(cut.size)
    return cut.resize((round(cut.width * scale), round(cut.height * scale)))


def _encoded(image: Image.Image, name: str) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG" if name.endswith(".png") else "JPEG", quality=82)
    return out.getvalue()
