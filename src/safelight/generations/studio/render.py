"""A commission becomes bytes: a still as JPEG, PNG or WebP, a clip as WebM.

Slow, and run in a child. The same commission gives the same bytes on the same versions of numpy,
Pillow and libvpx.
"""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from safelight.generations.lifecycle import MediaKind
from safelight.generations.studio.aurora import NorthernLights
from safelight.generations.studio.bloom import Meadow
from safelight.generations.studio.catalogue import FRAMES_PER_SECOND, Commission
from safelight.generations.studio.colour import to_bytes
from safelight.generations.studio.finish import finished
from safelight.generations.studio.horizon import Horizon
from safelight.generations.studio.nocturne import Nocturne
from safelight.generations.studio.prompt import read
from safelight.generations.studio.scene import Scene, Stage
from safelight.sandbox.protocol import Answer, SandboxTasks

SCENES: Final[dict[str, Callable[[Stage], Scene]]] = {
    "studio/horizon": Horizon,
    "studio/aurora": NorthernLights,
    "studio/nocturne": Nocturne,
    "studio/bloom": Meadow,
}
SOFTWARE: Final = "Safelight studio (procedural drawing)"
_DESCRIPTION, _SOFTWARE = 0x010E, 0x0131  # EXIF


def prepare(kind: str) -> SandboxTasks:
    """Each model and each kind of file once, small: some parts load themselves on first use."""
    for model, form in zip(SCENES, ("JPEG", "PNG", "WEBP", "JPEG"), strict=True):
        render(Commission(model, MediaKind(kind), "dusk", 1, 64, 64, form, 0.1))
    return {"draw": draw}


def draw(words: bytes, _: dict[str, Any]) -> Answer:
    wanted = json.loads(words)
    return Answer({}, render(Commission(**{**wanted, "kind": MediaKind(wanted["kind"])})))


def render(commission: Commission) -> bytes:
    stage = Stage(commission.width, commission.height, read(commission.prompt), commission.seed)
    scene = SCENES[commission.model](stage)
    if commission.kind is MediaKind.VIDEO:
        return _clip(commission, stage, scene)
    return _still(commission, _pixels(stage, scene, 0.0))


def _pixels(stage: Stage, scene: Scene, t: float) -> NDArray[np.uint8]:
    return to_bytes(finished(scene.paint(t), stage.rng("finish")))


def _still(commission: Commission, pixels: NDArray[np.uint8]) -> bytes:
    exif = Image.Exif()
    exif[_SOFTWARE] = SOFTWARE
    exif[_DESCRIPTION] = f"{commission.model}, seed {commission.seed}"
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, commission.format, quality=92, exif=exif)
    return buffer.getvalue()


def _clip(commission: Commission, stage: Stage, scene: Scene) -> bytes:
    """Chroma is kept at half size, so an odd row or column is left out."""
    from safelight.generations.studio.clip import encoded

    width, height = commission.width // 2 * 2, commission.height // 2 * 2

    def frames() -> Iterator[NDArray[np.uint8]]:
        for number in range(max(1, round(commission.seconds * FRAMES_PER_SECOND))):
            pixels = _pixels(stage, scene, number / FRAMES_PER_SECOND)
            yield np.ascontiguousarray(pixels[:height, :width])

    return encoded(frames(), width, height, FRAMES_PER_SECOND, SOFTWARE)
