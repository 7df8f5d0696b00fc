"""A picture in the making, in linear light. Places are in heights: y from 0 (top) to 1, x from the
middle, so that a scene looks the same at any size."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from safelight.generations.studio.colour import Floats

_FINE = 3  # shapes are drawn this much larger and then shrunk
Points = list[tuple[float, float]]
Places = NDArray[np.float64]
Draw = Callable[[ImageDraw.ImageDraw, float, float], None]
CanvasBox = tuple[slice, slice]


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
        box = _box_of(mask)
        part = self.image[box]
        part += mask[box][..., None] * (_part_of(colour, box) - part)

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
        inside: Floats = np.clip(away + 0.5, 0, 1)
        return inside

    def below(self, edge: Floats) -> Floats:
        """Everything under a line given as a height per column, its edge smooth."""
        return np.clip((self.y - edge[None, :]) / np.float32(self.pixel) + 0.5, 0, 1)

    def shape(self, *polygons: Points) -> Floats:
        """The inside of polygons, edges smooth."""

        def draw(pen: ImageDraw.ImageDraw, left: float, top: float) -> None:
            for points in polygons:
                pen.polygon([self._fine(x, y, left, top) for x, y in points], fill=255)

        places = np.array([place for points in polygons for place in points])
        return self._drawn(places, 0.0, draw)

    def spots(self, places: Points, sizes: list[float]) -> Floats:
        """Filled circles."""

        def draw(pen: ImageDraw.ImageDraw, left: float, top: float) -> None:
            for (x, y), size in zip(places, sizes, strict=True):
                (across, down), reach = self._fine(x, y, left, top), size * self.height * _FINE
                pen.ellipse((across - reach, down - reach, across + reach, down + reach), fill=255)

        return self._drawn(np.array(places), max(sizes), draw)

    def _drawn(self, places: Places, margin: float, draw: Draw) -> Floats:
        """Only the part that the shapes can touch is drawn, large, and shrunk."""
        mask = np.zeros((self.height, self.width), np.float32)
        low = (places.min(axis=0) - margin + (self.aspect / 2, 0)) * self.height - 2
        high = (places.max(axis=0) + margin + (self.aspect / 2, 0)) * self.height + 2
        left, top = np.clip(low, 0, (self.width, self.height)).astype(int)
        right, bottom = np.clip(np.ceil(high), 0, (self.width, self.height)).astype(int)
        if right <= left or bottom <= top:
            return mask
        size = (int(right - left), int(bottom - top))
        sheet = Image.new("L", (size[0] * _FINE, size[1] * _FINE))
        draw(ImageDraw.Draw(sheet), float(left), float(top))
        small = np.asarray(sheet.reduce(_FINE), np.float32) / 255
        mask[top:bottom, left:right] = small
        return mask

    def column(self, x: float) -> int:
        """The pixel column of a place."""
        return int(np.clip((x + self.aspect / 2) * self.height, 0, self.width - 1))

    def _fine(self, x: float, y: float, left: float, top: float) -> tuple[float, float]:
        """A place on the sheet whose corner is the pixel `left`, `top`."""
        across = (x + self.aspect / 2) * self.height - left
        return across * _FINE, (y * self.height - top) * _FINE


class Layer(Canvas):
    """Remembers how much of what lies below it covers."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self.cover: Floats = np.zeros((height, width), np.float32)

    def lay(self, mask: Floats, colour: Floats) -> None:
        super().lay(mask, colour)
        box = _box_of(mask)
        self.cover[box] += mask[box] * (1 - self.cover[box])


def _box_of(mask: Floats) -> CanvasBox:
    """The part of a mask where there is anything."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) == 0:
        return slice(0, 0), slice(0, 0)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _part_of(colour: Floats, box: CanvasBox) -> Floats:
    return colour if colour.ndim == 1 else colour[box]


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
