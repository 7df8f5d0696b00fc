"""A picture in the making, in linear light. Places are in heights: y from 0 (top) to 1, x from the
middle, so that a scene looks the same at any size."""

import numpy as np
from PIL import Image, ImageDraw

from safelight.generations.studio.colour import Floats

_FINE = 4  # shapes are drawn this much larger and then shrunk
Points = list[tuple[float, float]]


class Canvas:
    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.pixel = 1 / height
        self.aspect = width / height
        self.image: Floats = np.zeros((height, width, 3), np.float32)
        across = (np.arange(width, dtype=np.float32) + 0.5) / height
        self.x: Floats = (across - np.float32(self.aspect / 2))[None, :]
        self.y: Floats = ((np.arange(height, dtype=np.float32) + 0.5) / height)[:, None]

    def layer(self) -> "Layer":
        """An empty sheet of the same size, to be painted once and put down often."""
        return Layer(self.width, self.height)

    def put(self, layer: "Layer") -> None:
        self.image = self.image * (1 - layer.cover[..., None]) + layer.image

    def lay(self, mask: Floats, colour: Floats) -> None:
        """Covers with a colour, or with a picture, where the mask says so."""
        self.image += mask[..., None] * (colour - self.image)

    def light(self, mask: Floats, colour: Floats) -> None:
        """Adds light."""
        self.image += mask[..., None] * colour

    def distance(self, x: float, y: float, stretch: float = 1.0) -> Floats:
        """From a place, in heights; `stretch` above 1 makes circles wide."""
        away: Floats = np.hypot((self.x - np.float32(x)) / np.float32(stretch), self.y - y)
        return away

    def glow(self, x: float, y: float, radius: float, stretch: float = 1.0) -> Floats:
        return np.exp(-((self.distance(x, y, stretch) / np.float32(radius)) ** 2))

    def disc(self, x: float, y: float, radius: float) -> Floats:
        away = (np.float32(radius) - self.distance(x, y)) / np.float32(self.pixel)
        return np.clip(away + 0.5, 0, 1)

    def below(self, edge: Floats) -> Floats:
        """Everything under a line given as a height per column, its edge smooth."""
        return np.clip((self.y - edge[None, :]) / np.float32(self.pixel) + 0.5, 0, 1)

    def shape(self, *polygons: Points) -> Floats:
        """The inside of polygons, edges smooth."""
        mask = Image.new("L", (self.width * _FINE, self.height * _FINE))
        draw = ImageDraw.Draw(mask)
        for points in polygons:
            draw.polygon([self._fine(x, y) for x, y in points], fill=255)
        small = mask.resize((self.width, self.height), Image.Resampling.BOX)
        return np.asarray(small, np.float32) / 255

    def spots(self, places: Points, sizes: list[float]) -> Floats:
        """Filled circles."""
        mask = Image.new("L", (self.width * _FINE, self.height * _FINE))
        draw = ImageDraw.Draw(mask)
        for (x, y), size in zip(places, sizes, strict=True):
            (left, top), reach = self._fine(x, y), size * self.height * _FINE
            draw.ellipse((left - reach, top - reach, left + reach, top + reach), fill=255)
        small = mask.resize((self.width, self.height), Image.Resampling.BOX)
        return np.asarray(small, np.float32) / 255

    def column(self, x: float) -> int:
        """The pixel column of a place."""
        return int(np.clip((x + self.aspect / 2) * self.height, 0, self.width - 1))

    def _fine(self, x: float, y: float) -> tuple[float, float]:
        return (x + self.aspect / 2) * self.height * _FINE, y * self.height * _FINE


class Layer(Canvas):
    """Remembers how much of what lies below it covers."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self.cover: Floats = np.zeros((height, width), np.float32)

    def lay(self, mask: Floats, colour: Floats) -> None:
        super().lay(mask, colour)
        self.cover += mask * (1 - self.cover)


def blurred(values: Floats, radius: float) -> Floats:
    """Softened by about `radius` pixels, by way of a small copy."""
    height, width = values.shape[:2]
    step = max(1, int(radius / 2))
    size = (max(2, width // step), max(2, height // step))
    planes = values[..., None] if values.ndim == 2 else values  # noqa: PLR2004 - grey or colour
    soft = [_resized(planes[..., at], size, (width, height)) for at in range(planes.shape[-1])]
    return soft[0] if values.ndim == 2 else np.stack(soft, axis=-1)  # noqa: PLR2004 - as above


def _resized(plane: Floats, small: tuple[int, int], full: tuple[int, int]) -> Floats:
    image = Image.fromarray(np.ascontiguousarray(plane, np.float32))
    tiny = image.resize(small, Image.Resampling.BOX)
    softer = tiny.resize((max(2, small[0] // 2), max(2, small[1] // 2)), Image.Resampling.BILINEAR)
    return np.asarray(softer.resize(full, Image.Resampling.BICUBIC), np.float32)
