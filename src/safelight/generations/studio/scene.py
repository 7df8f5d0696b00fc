"""What a scene is: prepared once, then painted for any moment; the same for the same seed."""

import zlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from safelight.generations.studio.canvas import Canvas
from safelight.generations.studio.noise import Random
from safelight.generations.studio.prompt import Reading


@dataclass(frozen=True, slots=True)
class Stage:
    """The size, the prompt's reading, and randomness by name: parts do not disturb each other."""

    width: int
    height: int
    reading: Reading
    seed: int

    def rng(self, part: str) -> Random:
        return np.random.default_rng([self.seed, zlib.crc32(part.encode())])

    def canvas(self) -> Canvas:
        return Canvas(self.width, self.height)

    def chance(self, part: str) -> float:
        return float(self.rng(part).random())

    def happens(self, part: str, share: float) -> bool:
        return self.chance(part) < share


class Scene(Protocol):
    def paint(self, t: float) -> Canvas:
        """The picture at `t` seconds."""
