"""What every picture gets at the end: bloom, a darker rim, a breath of grain."""

import numpy as np

from safelight.generations.studio.canvas import Canvas, blurred
from safelight.generations.studio.colour import Floats
from safelight.generations.studio.noise import Random


def finished(canvas: Canvas, rng: Random, *, bloom: float = 0.5, grain: float = 0.012) -> Floats:
    image = canvas.image
    bright = np.maximum(image - 0.72, 0)
    for radius, share in ((canvas.height / 90, 0.5), (canvas.height / 22, 0.5)):
        image = image + np.float32(bloom * share) * blurred(bright, radius)
    corner = canvas.distance(0.0, 0.5, canvas.aspect)
    image = image * (1 - np.float32(0.42) * np.clip(corner - 0.25, 0, 1) ** 2)[..., None]
    noise = rng.standard_normal((canvas.height, canvas.width), np.float32)
    grainy: Floats = image + np.float32(grain) * noise[..., None] * (2.2 * image + 0.03)
    return grainy
